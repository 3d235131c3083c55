#include "app/bars/run_chips.h"

#include <QFileInfo>
#include <QMenu>
#include <QToolButton>

#include "app/look/icons.h"
#include "core/training/engine/lock_step.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

RunChips::RunChips(QWidget* parent) : QWidget(parent) {
  auto* row = plainRow(this, kSpace4);
  const auto add_button = [row](bool chip) {
    auto* button = new QToolButton;
    button->setAutoRaise(true);
    button->setFocusPolicy(Qt::TabFocus);
    button->setProperty(kChipProperty, chip);
    followFont(button, [button] { button->setFixedHeight(withType(kFieldHeight, button->fontMetrics())); });
    row->addWidget(button);
    return button;
  };
  for (int run = 0; run < kMaxRuns; ++run) {
    QToolButton* chip = add_button(true);
    chip->setCheckable(true);
    chip->setIconSize({kChipSize, kChipSize});
    chip->setContextMenuPolicy(Qt::CustomContextMenu);  // not actions of the widget, which would add a menu arrow
    connect(chip, &QToolButton::customContextMenuRequested, this,
            [this, chip, run](QPoint at) { emit chipMenuWanted(run, chip->mapToGlobal(at)); });
    connect(chip, &QToolButton::clicked, this, [this, run] {
      chips_[run]->setChecked(run == active_);  // the selection sets it
      emit activated(run);
    });
    chip->hide();
    chips_.push_back(chip);
  }
  file_ = add_button(true);
  file_->setObjectName("chip_file");
  connect(file_, &QToolButton::clicked, this, &RunChips::fileActivated);
  file_->hide();
  add_ = add_button(false);
  add_->setObjectName("compare_button");
  add_->setPopupMode(QToolButton::InstantPopup);
  menu_ = new QMenu(add_);
  connect(add_, &QToolButton::clicked, this, [this] {
    if (!live_) emit logWanted();
  });
  connect(menu_, &QMenu::aboutToShow, this, [this] { emit menuWanted(menu_); });
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Preferred);
  followPalette(this, [this] { drawChips(); });
  setLive(false);
}

void RunChips::setLive(bool live) {
  live_ = live;
  add_->setMenu(live ? menu_ : nullptr);
  add_->setText(live ? "Compare" : "Log");
  drawChips();
  emit changed();
}

void RunChips::setShown(Parts parts) {
  parts_ = parts;
  drawChips();
}

void RunChips::showFile(const QString& path) {
  path_ = path;
  drawChips();
  emit changed();
}

void RunChips::showRuns(const std::vector<Run>& runs, int active) {
  if (runs == runs_ && active == active_) return;
  runs_ = runs;
  active_ = active;
  drawChips();
  emit changed();
}

void RunChips::drawChips() {
  for (int run = 0; run < kMaxRuns; ++run) {
    QToolButton* chip = chips_[run];
    chip->setVisible(run < to_int(runs_.size()));
    chip->setObjectName(QString());
    if (run >= to_int(runs_.size())) continue;
    const Run& shown = runs_[run];
    chip->setIcon(
        chipPixmap(shown.letter, seriesColor(shown.color, isDark(palette())), kChipSize, devicePixelRatioF()));
    QString words = shown.progress;
    if (words.isEmpty() && (parts_.names || (parts_.active && run == active_))) words = shown.name;
    chip->setText(words);
    chip->setToolButtonStyle(words.isEmpty() ? Qt::ToolButtonIconOnly : Qt::ToolButtonTextBesideIcon);
    chip->setChecked(run == active_);
    chip->setObjectName("chip_" + shown.letter);
    QString tip = QString("Run %1: %2").arg(shown.letter, shown.name);
    if (!shown.differs.isEmpty()) tip += "\ndiffers from A in " + shown.differs;
    if (!shown.progress.isEmpty()) tip += "\ncatching up: step " + shown.progress + "; run A waits for it";
    chip->setToolTip(tip + "\nClick: shows this run in the panels of one run; live settings then change this run");
    chip->setAccessibleName(tip);
  }
  const QString file = QFileInfo(path_).fileName();
  file_->setVisible(hasFile());
  file_->setIcon(picture(Picture::folder, palette()));
  file_->setText(parts_.names ? file : QString());
  file_->setToolButtonStyle(parts_.names ? Qt::ToolButtonTextBesideIcon : Qt::ToolButtonIconOnly);
  file_->setToolTip(QString("Tensors of %1\nClick: Microscaling shows them").arg(path_));
  file_->setAccessibleName("Tensors of " + file);
  const bool has_room = runs_.size() < kMaxRuns;
  add_->setVisible(live_ || !runs_.empty());
  add_->setEnabled(live_ || has_room);
  QString tip = QString("%1 runs are open, more cannot be compared").arg(kMaxRuns);
  if (has_room) tip = "Open another log or recording beside this one and compare them (Ctrl+Shift+O)";
  if (live_) tip = "Train a twin of run A beside it, on the same batches: another setting, number format or seed";
  add_->setToolTip(tip);
  add_->setIcon(picture(Picture::plus, palette()));
  add_->setToolButtonStyle(parts_.words ? Qt::ToolButtonTextBesideIcon : Qt::ToolButtonIconOnly);
}

}  // namespace moescope
