#include "app/bars/pace_popover.h"

#include <QComboBox>
#include <QIntValidator>
#include <QLabel>
#include <QLineEdit>
#include <QVBoxLayout>
#include <limits>

#include "app/look/dialog_parts.h"

namespace moescope {

PacePopover::PacePopover(QWidget* parent) : Popover("Pace", parent), speed_(new QComboBox), until_(new QLineEdit) {
  setObjectName("pace_popover");
  speed_->addItem("as fast as possible", 0.0);
  for (double limit : {60.0, 10.0, 1.0}) speed_->addItem(QString("%1 steps/s").arg(limit), limit);
  connect(speed_, &QComboBox::activated, this, [this] { emit speedRequested(speed_->currentData().toDouble()); });
  addRow("Speed", speed_);
  until_->setPlaceholderText("end of the schedule");
  until_->setValidator(new QIntValidator(0, std::numeric_limits<int>::max(), until_));
  connect(until_, &QLineEdit::editingFinished, this, &PacePopover::onUntilEdited);
  connect(until_, &QLineEdit::returnPressed, this, &QWidget::hide);
  until_name_ = addRow("Until step", until_);
  words_ = quietText();
  column()->addWidget(words_);
  setTraining(true);
}

void PacePopover::setTraining(bool training) {
  for (QWidget* part : {static_cast<QWidget*>(until_), static_cast<QWidget*>(until_name_)}) part->setVisible(training);
  words_->setText(training
                      ? "Training pauses before this step. If no step is set, it pauses at the end of the schedule."
                      : "At \"as fast as possible\" a recording is replayed in 10 s.");
}

void PacePopover::onUntilEdited() {
  bool ok = false;
  const qint64 step = until_->text().toLongLong(&ok);
  emit untilRequested(ok ? std::optional(step) : std::nullopt);
}

void PacePopover::showUntil(std::optional<qint64> step) {
  until_->setText(step ? QString::number(*step) : QString());
}

}  // namespace moescope
