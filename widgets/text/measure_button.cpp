#include "widgets/text/measure_button.h"

namespace moescope {

MeasureButton::MeasureButton(const QString& tool_tip, QWidget* parent) : QPushButton("Measure", parent) {
  setToolTip(tool_tip);
  hide();
  connect(this, &QPushButton::clicked, this, [this] { busy() ? emit cancelled() : emit requested(); });
}

void MeasureButton::set(const QString& progress, const QString& refused) {
  progress_ = progress;
  refused_ = refused;
  setText(busy() ? QString("Cancel") : QString("Measure"));
  emit changed();
}

}  // namespace moescope
