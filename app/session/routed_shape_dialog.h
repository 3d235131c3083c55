// Asks for what a file of routed experts does not say: layers, experts a token, experts of a layer.
#pragma once

#include <QDialog>

#include "core/logs/import.h"

class QSpinBox;

namespace moescope {

class RoutedShapeDialog : public QDialog {
  Q_OBJECT

 public:
  RoutedShapeDialog(const QString& why, const RoutedShape& stated, QWidget* parent);
  RoutedShape stated() const;

 private:
  QSpinBox* layers_;
  QSpinBox* top_k_;
  QSpinBox* experts_;
};

}  // namespace moescope
