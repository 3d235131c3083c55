// The table of published claims that were tested on a small model (core/lessons/claim_results.h), in its own window.
#pragma once

#include <QDialog>
#include <span>

#include "core/lessons/claim_results.h"

namespace moescope {

class ClaimsWindow : public QDialog {
  Q_OBJECT

 public:
  ClaimsWindow(std::span<const ClaimRow> rows, const ClaimResults& results, QWidget* parent);
};

// Shows the built-in claims with their kept results, in at most one window.
void showClaims(QWidget* parent);

}  // namespace moescope
