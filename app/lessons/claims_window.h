// The table of published claims that were tried on a miniature (core/lessons/claim_results.h), in a window of its own.
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
