#include "app/bars/start_doors.h"

#include <QPushButton>

#include "app/look/keep_keys.h"

namespace moescope {

StartDoors::StartDoors(QWidget* parent) : QWidget(parent), row_(new QHBoxLayout(this)) {
  row_->setContentsMargins(0, 0, 0, 0);
  row_->setSpacing(6);
  const auto add = [this](const char* object, const QString& name, const QString& short_name, const QString& tip,
                          auto signal) {
    auto* door = new QPushButton(name, this);
    door->setObjectName(object);
    door->setAccessibleName(name);
    door->setToolTip(tip);
    keepKeys(door);
    connect(door, &QPushButton::clicked, this, signal);
    row_->addWidget(door);
    doors_ << Door{door, name, short_name};
  };
  add("door_lesson", "Take lesson 1", "Lesson 1",
      "The rich get richer: trains a small model and asks what you expect of it", &StartDoors::lessonRequested);
  add("door_open", "Open your log...", "Open...",
      "A recording, or the log of a training elsewhere: JSON lines, tables, TensorBoard events (Ctrl+O)",
      &StartDoors::openRequested);
  add("door_compare", "Compare precisions", "Compare",
      "Trains the preset small side by side on the same batches: experts in BF16, MXFP8 and MXFP4, and a twin of BF16 "
      "that shows what chance does",
      &StartDoors::compareRequested);
}

void StartDoors::arrange(QBoxLayout::Direction direction, QString Door::*name) {
  for (const Door& door : doors_) door.button->setText(door.*name);
  row_->setDirection(direction);
  row_->setSpacing(direction == QBoxLayout::LeftToRight ? 6 : 2);
}

void StartDoors::fitInto(int width) {
  arrange(QBoxLayout::LeftToRight, &Door::name);
  if (sizeHint().width() <= width) return;
  arrange(QBoxLayout::LeftToRight, &Door::short_name);
  if (sizeHint().width() > width) arrange(QBoxLayout::TopToBottom, &Door::short_name);
}

}  // namespace moescope
