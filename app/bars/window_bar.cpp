#include "app/bars/window_bar.h"

#include <QAction>
#include <QComboBox>
#include <QEvent>
#include <QMenu>
#include <QPainter>
#include <QStyleOptionToolButton>
#include <QStylePainter>
#include <QTabBar>
#include <QToolButton>
#include <algorithm>
#include <cstdint>

#include "app/bars/popovers.h"
#include "app/bars/run_chips.h"
#include "app/look/icons.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/controls.h"

namespace moescope {
namespace {

constexpr int kStepChevron = 16;

// Replaces all digits of the text by 9. The button is as wide as this text, so that its width stays while the step
// rises.
QString asNines(QString digits) {
  for (QChar& digit : digits)
    if (digit.isDigit()) digit = '9';
  return digits;
}

constexpr int kNarrowest = 7;    // highest level of setNarrowness()
constexpr int kMinBar = 320;     // minimum width of the bar
constexpr int kLineHeight = 20;  // height of the lines between groups

// Paints the bar's background and the line below it.
class BarContent : public QWidget {
 public:
  using QWidget::QWidget;

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    const Colors& c = colors(palette());
    painter.fillRect(rect(), QColor(c.surface));
    painter.fillRect(0, height() - 1, width(), 1, QColor(c.hairline));
  }
};

class BarLine : public QWidget {
 public:
  explicit BarLine(QWidget* parent) : QWidget(parent) { setFixedWidth(2 * kSpace8 + 1); }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter(this).fillRect(kSpace8, (height() - kLineHeight) / 2, 1, kLineHeight, QColor(colors(palette()).hairline));
  }
};

}  // namespace

// A button with the steps taken, "1,284 of 2,000 steps", or the step of a replay. It opens the popover for the pace.
class StepButton : public QToolButton {
 public:
  StepButton() {
    setAutoRaise(true);
    setFocusPolicy(Qt::TabFocus);
    setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
  }

  // `word`: the word before the number of a step, "step 1,284"; empty: `step` is a count of steps taken. `end`: the
  // planned number of steps, "1,284 of 2,000 steps"; nullopt: the text is "1,284 steps".
  void showStep(const QString& word, std::int64_t step, std::optional<std::int64_t> end) {
    if (word == word_ && step == step_ && end == end_) return;
    const QSize size = sizeHint();
    // What is beside it keeps its place while a run passes the end of its schedule.
    least_width_ = word == word_ && step >= step_ ? size.width() : 0;
    word_ = word;
    step_ = step;
    end_ = end;
    setAccessibleName("Step: " + before() + groupedText(step_) + after());
    setToolTip(
        word_.isEmpty() && step_ > 0
            ? QString("Steps taken; the first is step 0, the last one so far is step %1").arg(groupedText(step_ - 1))
            : QString());
    if (sizeHint() != size) updateGeometry();
    update();
  }

  void setShort(bool is_short) {  // true: shows the number alone
    if (is_short == short_) return;
    short_ = is_short;
    least_width_ = 0;
    updateGeometry();
    update();
  }

  QSize sizeHint() const override {
    const QString longest = asNines(groupedText(std::max(step_, end_.value_or(0))));
    const QFontMetrics metrics(font());
    return {std::max(least_width_, widthWith(longest) + 2 * kSpace8 + kSpace4 + withType(kStepChevron, metrics)),
            withType(kFieldHeight, metrics)};
  }
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent*) override {
    QStylePainter painter(this);
    QStyleOptionToolButton option;
    initStyleOption(&option);
    painter.drawPrimitive(QStyle::PE_PanelButtonTool, option);
    const Colors& c = colors(palette());
    const QColor ink(isEnabled() ? c.ink : c.disabled), quiet(isEnabled() ? c.ink2 : c.disabled);
    const int chevron = withType(kStepChevron, fontMetrics());
    QRect room = rect().adjusted(kSpace8, 0, -kSpace8 - chevron, 0);
    const auto write = [&](const QString& text, const QFont& font, const QColor& color) {
      painter.setFont(font);
      painter.setPen(color);
      painter.drawText(room, Qt::AlignLeft | Qt::AlignVCenter, text);
      room.setLeft(room.left() + QFontMetrics(font).horizontalAdvance(text));
    };
    room.setLeft(room.right() + 1 - widthWith(groupedText(step_)));
    write(before() + groupedText(step_), font(), ink);
    write(after(), typeFont(font(), Type::secondary), quiet);
    drawChevron(painter, QRect(rect().right() - kSpace4 - chevron, 0, chevron, height()), quiet);
  }

 private:
  QString before() const { return short_ || word_.isEmpty() ? QString() : word_ + QLatin1Char(' '); }
  QString after() const {  // drawn in secondary ink
    if (short_ || !word_.isEmpty()) return {};
    return (end_ ? " of " + groupedText(*end_) : QString()) + " steps";
  }
  int widthWith(const QString& number) const {
    const QFontMetrics body(font()), secondary(typeFont(font(), Type::secondary));
    return body.horizontalAdvance(before()) + body.horizontalAdvance(number) + secondary.horizontalAdvance(after());
  }

  std::int64_t step_ = 0;
  std::optional<std::int64_t> end_;
  QString word_ = "step";
  bool short_ = false;
  int least_width_ = 0;
};

WindowBar::WindowBar(QTabBar* workspaces, QWidget* parent)
    : QToolBar("Bar", parent),
      content_(new BarContent(this)),
      tabs_(workspaces),
      tab_list_(new FlatCombo),
      chips_(new RunChips),
      count_(new StepButton) {
  setObjectName("window_bar");
  setMovable(false);
  setContextMenuPolicy(Qt::PreventContextMenu);
  layout()->setContentsMargins(0, 0, 0, 0);
  live_popover_ = new LivePopover(this);
  pace_ = new PacePopover(this);
  makeActions();
  takeTabs(workspaces);
  makeLayout();
  addWidget(content_);
  followFont(this, [this] { content_->setFixedHeight(withType(kBarHeight, fontMetrics())); });
  connect(count_, &QToolButton::clicked, this, [this] { pace_->openUnder(count_); });
  connect(chips_, &RunChips::changed, this, &WindowBar::showChips);
  drawPictures();
  showOpen(Open::nothing);
}

void WindowBar::makeActions() {
  const auto make = [this](const QString& text, const QKeySequence& key, const QString& whats_this,
                           const QString& tip) {
    auto* action = new QAction(text, this);
    action->setShortcut(key);
    action->setWhatsThis(whats_this);
    action->setToolTip(tip);
    return action;
  };
  run_ = make("Run", Qt::Key_Space, "Run or pause", {});
  connect(run_, &QAction::triggered, this, [this] { emit runRequested(!running_); });
  step_ = make("Step", Qt::Key_Period, "Train exactly one step, or show the next of a recording",
               "Train exactly one step (.)");
  // Not a letter alone: a word that is typed into the wrong window must not end a training.
  reset_ = make("Reset", QKeySequence("Ctrl+R"), "Reset: start this run again from step 0",
                "Start this run again from step 0 with its present settings (Ctrl+R); its recording stays");
  live_ = make("Live", Qt::Key_F4, "Live settings: change the model in training",
               "Settings that take effect at the next step (F4)");
  connect(live_, &QAction::triggered, this, &WindowBar::openLive);
  setup_ = make("Set-up", Qt::Key_F2, "Set-up: all settings of a run", "All settings of a run (F2)");
  setup_->setCheckable(true);
  search_ = make("Search", QKeySequence("Ctrl+K"), "Search: find an action, panel, metric, setting, expert or page",
                 "Finds an action, panel, metric, setting, expert, step, lesson or page of the manual (Ctrl+K)");
}

// Moves the tab bar of the workspaces into this bar. In a narrow window a combo box replaces it.
void WindowBar::takeTabs(QTabBar* tabs) {
  tabs->setProperty(kBarTabsProperty, true);
  tabs->setUsesScrollButtons(false);
  tab_list_->setObjectName("workspace_list");
  tab_list_->setAccessibleName("Workspace");
  tab_list_->setFocusPolicy(Qt::TabFocus);
  for (int i = 0; i < tabs->count(); ++i) tab_list_->addItem(tabs->tabText(i));
  tab_list_->setFont(semibold(tab_list_->font()));
  connect(tabs, &QTabBar::currentChanged, tab_list_, &QComboBox::setCurrentIndex);
  connect(tab_list_, &QComboBox::activated, tabs, &QTabBar::setCurrentIndex);
  connect(tab_list_, &QComboBox::activated, tabs, &QTabBar::tabBarClicked);
}

void WindowBar::makeLayout() {
  auto* row = plainRow(content_, 2);
  row->setContentsMargins(kSpace4, 0, kSpace8, 1);
  menu_ = new QToolButton(content_);
  menu_->setObjectName("menu_button");
  menu_->setAccessibleName("Menu");
  menu_->setToolTip("Menu (F10)");
  menu_->setAutoRaise(true);
  menu_->setFocusPolicy(Qt::TabFocus);
  menu_->setPopupMode(QToolButton::InstantPopup);
  row->addWidget(menu_);
  row->addWidget(tabs_);
  row->addWidget(tab_list_);
  row->addStretch(1);
  search_button_ = addButton(search_, true);
  row->addWidget(chips_);
  run_parts_ << addLine() << addButton(run_, false);
  training_parts_ << addButton(step_, false) << addButton(reset_, false);
  run_parts_ << count_;
  row->addWidget(count_);
  run_parts_ << addLine();
  live_button_ = addButton(live_, true);
  training_parts_ << live_button_;
  setup_button_ = addButton(setup_, true);
}

QToolButton* WindowBar::addButton(QAction* action, bool words) {
  auto* button = new QToolButton(content_);
  button->setDefaultAction(action);
  button->setObjectName(action->text().toLower() + "_button");
  button->setAutoRaise(true);
  button->setFocusPolicy(Qt::TabFocus);
  button->setToolButtonStyle(words ? Qt::ToolButtonTextBesideIcon : Qt::ToolButtonIconOnly);
  followFont(button, [button] { button->setFixedHeight(withType(kFieldHeight, button->fontMetrics())); });
  content_->layout()->addWidget(button);
  return button;
}

QWidget* WindowBar::addLine() {
  auto* line = new BarLine(content_);
  content_->layout()->addWidget(line);
  return line;
}

void WindowBar::setMenu(QMenu* menu) {
  menu_->setMenu(menu);
}

void WindowBar::openMenu() {
  menu_->showMenu();
}

void WindowBar::openLive() {
  if (open_ != Open::training) return;
  if (setup_->isChecked()) setup_->trigger();  // closes the drawer
  live_popover_->openUnder(live_button_);
}

void WindowBar::drawPictures() {
  menu_->setIcon(picture(Picture::menu, palette()));
  run_->setIcon(picture(running_ ? Picture::pause : Picture::play, palette()));
  step_->setIcon(picture(Picture::step, palette()));
  reset_->setIcon(picture(Picture::reset, palette()));
  live_->setIcon(picture(Picture::live, palette()));
  setup_->setIcon(picture(Picture::settings, palette()));
  search_->setIcon(picture(Picture::search, palette()));
}

void WindowBar::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) drawPictures();
  if (event->type() == QEvent::FontChange) fit();
  QToolBar::changeEvent(event);
}

void WindowBar::resizeEvent(QResizeEvent* event) {
  QToolBar::resizeEvent(event);
  fit();
}

QSize WindowBar::minimumSizeHint() const {
  return {kMinBar, content_->minimumHeight()};
}

void WindowBar::setNarrowness(int level) {
  const auto show_words = [](QToolButton* button, bool words) {
    button->setToolButtonStyle(words ? Qt::ToolButtonTextBesideIcon : Qt::ToolButtonIconOnly);
  };
  show_words(search_button_, level < 1);
  chips_->setShown({.names = level < 2, .active = level < 4, .words = level < 3});
  count_->setShort(level >= 5);
  for (QToolButton* button : {live_button_, setup_button_}) show_words(button, level < 6);
  const bool in_list = level >= kNarrowest || width() < withType(kNarrowWindow, fontMetrics());
  tabs_->setVisible(!in_list);
  tab_list_->setVisible(in_list);
  chips_->updateGeometry();
}

void WindowBar::showChips() {
  chips_->setVisible(open_ != Open::nothing || chips_->hasFile());
  fit();
}

// Uses the widest form of the bar that fits.
void WindowBar::fit() {
  for (int level = 0; level <= kNarrowest; ++level) {
    setNarrowness(level);
    content_->layout()->invalidate();
    if (content_->layout()->sizeHint().width() <= width()) return;
  }
}

void WindowBar::setRunning(bool running) {
  running_ = running;
  const bool training = open_ == Open::training;
  if (running) {
    run_->setText("Pause");
    run_->setToolTip(training ? "Pause after this step (Space)" : "Pause the replay (Space)");
  } else {
    run_->setText(training ? "Run" : "Play");
    const char* go_on = is_done_ ? "Train on after the end of the schedule" : "Continue the training (Space)";
    run_->setToolTip(training ? go_on : "Replay the recording from the cursor on (Space)");
  }
  run_->setShortcut(is_done_ ? QKeySequence() : QKeySequence(Qt::Key_Space));
  step_->setShortcut(is_done_ ? QKeySequence() : QKeySequence(Qt::Key_Period));
  run_->setProperty("also", running ? "stop | stop run | stop training" : "go on | continue | resume | pause");
  run_->setIcon(picture(running ? Picture::pause : Picture::play, palette()));
}

// Enables the keys for one step and for the first step also in replays, which have no buttons for them.
void WindowBar::showOpen(Open open, std::int64_t scheduled) {
  scheduled_ = scheduled;
  const bool can_run = open == Open::training || open == Open::recording;
  for (QAction* action : {run_, step_, reset_}) action->setEnabled(can_run);
  live_->setEnabled(open == Open::training);
  if (open == open_) return;
  open_ = open;
  for (QWidget* part : run_parts_) part->setVisible(open != Open::nothing);
  showChips();
  for (QWidget* part : training_parts_) part->setVisible(open == Open::training);
  count_->setVisible(can_run);
  pace_->setTraining(open == Open::training);
  if (open != Open::training) live_popover_->hide();
  is_done_ = false;
  setRunning(false);
  fit();
}

void WindowBar::showReplay(bool playing, std::int64_t step, const QString& word) {
  if (playing != running_) setRunning(playing);
  count_->showStep(word, step, std::nullopt);
}

void WindowBar::showStatus(const LiveStatus& status) {
  is_done_ = !until_ && !status.running && status.step >= scheduled_;
  if (status.running != running_ || is_done_ != run_->shortcut().isEmpty()) setRunning(status.running);
  const std::int64_t end = until_.value_or(scheduled_);
  const QSize before = count_->sizeHint();
  count_->showStep({}, status.step, status.step <= end ? std::optional(end) : std::nullopt);
  if (count_->sizeHint() != before) fit();
}

void WindowBar::showUntil(std::optional<qint64> step) {
  until_ = step;
  pace_->showUntil(step);
}

}  // namespace moescope
