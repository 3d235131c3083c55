// Asks for the shape that a file of routed experts does not state: layers, experts per token, experts per layer.
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
