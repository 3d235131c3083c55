#include "app/bars/status_line.h"

#include <QEvent>
#include <QFileInfo>
#include <QLocale>
#include <QPainter>
#include <QTimer>
#include <QToolButton>
#include <array>
#include <cmath>

#include "app/look/icons.h"
#include "app/session/settings.h"
#include "core/frame/frame.h"
#include "core/recording/history/step_axis.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/axis.h"

namespace moescope {
NoticeBar::NoticeBar(QWidget* parent) : QFrame(parent), text_(new QLabel(this)), buttons_(plainRow(kSpace8)) {
  setObjectName("notice_bar");
  text_->setWordWrap(true);
  text_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  text_->setAccessibleName("Notice");
  auto* close = new QToolButton(this);
  close->setAccessibleName("Close the notice");
  close->setToolTip("Close");
  close->setAutoRaise(true);
  close->setFocusPolicy(Qt::TabFocus);
  connect(close, &QToolButton::clicked, this, &QWidget::hide);
  auto* row = plainRow(this, kSpace8);
  row->setContentsMargins(kSpace16, kSpace8 + kSpace4, kSpace12 + kSpace4, kSpace4);
  row->addWidget(text_, 1);
  row->addLayout(buttons_);
  row->addWidget(close);
  followPalette(this, [this, close] { close->setIcon(picture(Picture::close, palette())); });
  hide();
}

void NoticeBar::offer(const QString& text, const QList<Offer>& offers) {
  text_->setText(text);
  while (QLayoutItem* item = buttons_->takeAt(0)) {
    item->widget()->deleteLater();  // it may be the button that was clicked
    delete item;
  }
  for (const Offer& offered : offers) {
    auto* button = new QToolButton(this);
    button->setObjectName("notice_action");
    button->setFocusPolicy(Qt::TabFocus);
    button->setText(offered.button);
    connect(button, &QToolButton::clicked, this, [this, action = offered.action] {
      hide();
      action();  // may show another notice
    });
    buttons_->addWidget(button);
  }
  update();
  setVisible(!text.isEmpty());
}

// Paints warnings in the attention color and offers in the accent color.
void NoticeBar::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  const bool has_offers = buttons_->count() > 0;
  drawRounded(painter, rect().adjusted(kSpace8, kSpace8, -kSpace8, 0), kRadiusPanel,
              QColor(has_offers ? c.accent_soft : c.attention_soft), QColor(has_offers ? c.accent : c.attention));
}

namespace {

constexpr int kBetweenItems = kSpace16;
constexpr int kDot = 8, kDotGap = 6;

// Returns for example "200 steps", "70 logged steps" for a log that left steps out, or "7 batches" for a checkpoint.
QString stepsText(const History& history) {
  if (run_origin(history.info()) != RunOrigin::checkpoint) return QString::fromStdString(steps_text(history));
  return countedText(history.count(), "batch");
}

QString rateText(double per_s) {
  const int digits = int{per_s < 10} + int{per_s < 1};
  return QLocale(QLocale::English).toString(per_s, 'f', digits) + " steps/s";
}

}  // namespace

// An item of the status line: a dot and a text in one of several forms, from long to short.
class StatusItem : public QToolButton {
 public:
  // A click has an effect only if clicked() is connected.
  explicit StatusItem(QWidget* parent = nullptr) : QToolButton(parent) {
    setAutoRaise(true);
    setFocusPolicy(Qt::NoFocus);
    setSizePolicy(QSizePolicy::Maximum, QSizePolicy::Fixed);
    hide();
  }
  // Sets the texts, from long to short. Without any text the item is hidden.
  void setForms(const QStringList& forms, QRgb Colors::*dot = nullptr) {
    if (forms == forms_ && dot == dot_) return;
    forms_ = forms;
    dot_ = dot;
    setAccessibleName(forms_.value(0));
    update();
  }
  void setForm(int form) {  // 0: the longest; forms(): hidden
    const QString words = forms_.value(form);
    if (words != text()) setText(words);
    setVisible(!words.isEmpty());
  }
  int forms() const { return to_int(forms_.size()); }
  // Width of a form with the space to the next item; 0 if the form hides the item.
  int room(int form) const {
    const QString words = forms_.value(form);
    return words.isEmpty() ? 0 : widthOf(words) + kBetweenItems;
  }
  QSize sizeHint() const override { return {widthOf(text()), QFontMetrics(font()).height() + 2}; }
  QSize minimumSizeHint() const override { return {0, sizeHint().height()}; }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    const Colors& c = colors(palette());
    if (showsFocus(*this)) drawRounded(painter, rect(), kRadiusControl, Qt::transparent, QColor(c.accent), kFocusLine);
    int left_x = kSpace4;
    if (dot_) {
      painter.setRenderHint(QPainter::Antialiasing);
      painter.setPen(Qt::NoPen);
      painter.setBrush(QColor(c.*dot_));
      painter.drawEllipse(QRectF(left_x, (height() - kDot) / 2.0, kDot, kDot));
      left_x += kDot + kDotGap;
    }
    painter.setFont(font());
    QRgb Colors::*ink = property("offers").toBool() ? &Colors::accent : &Colors::ink2;
    if (focusPolicy() != Qt::NoFocus && underMouse()) ink = &Colors::ink;
    painter.setPen(QColor(c.*ink));
    painter.drawText(rect().adjusted(left_x, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter, text());
  }

 private:
  int widthOf(const QString& words) const {
    return QFontMetrics(font()).horizontalAdvance(words) + (dot_ ? kDot + kDotGap : 0) + 2 * kSpace4;
  }

  QStringList forms_;
  QRgb Colors::*dot_ = nullptr;  // colour of the theme; nullptr: no dot
};

StatusLine::StatusLine(QWidget* parent) : QStatusBar(parent), items_(new QWidget(this)) {
  setSizeGripEnabled(false);
  // Which items are shown must not affect the width of the line, since it follows from that width.
  items_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  auto* row = plainRow(items_, kBetweenItems);
  row->setContentsMargins(kSpace8, 0, kSpace8, 0);
  for (StatusItem** item : {&state_, &offer_, &speed_, &tokens_, &steps_, &recording_, &findings_, &account_})
    row->addWidget(*item = new StatusItem(items_));
  row->addStretch(1);
  state_->setObjectName("status_state");
  offer_->setObjectName("status_offer");
  offer_->setFocusPolicy(Qt::TabFocus);
  offer_->setProperty("offers", true);
  connect(offer_, &QToolButton::clicked, this, &StatusLine::offerClicked);
  speed_->setToolTip("Steps per second (measured)");
  tokens_->setToolTip("Tokens per second of all runs together (measured)");
  findings_->setObjectName("findings_badge");
  findings_->setToolTip("Findings in the open runs: a click shows the list (F6)");
  connect(findings_, &QToolButton::clicked, this, &StatusLine::findingsClicked);
  account_->setObjectName("account_badge");
  account_->setToolTip("What was read from the log: a click shows each name and what it was taken for");
  connect(account_, &QToolButton::clicked, this, &StatusLine::accountClicked);
  addWidget(items_, 1);
  followFont(this, [this] {
    const QFont type = typeFont(Type::secondary);
    for (StatusItem* item : items_->findChildren<StatusItem*>()) item->setFont(type);
    setFixedHeight(withType(kStatusHeight, fontMetrics()));
  });
  showState("Ready");
}

void StatusLine::resizeEvent(QResizeEvent* event) {
  QStatusBar::resizeEvent(event);
  fit();
}

// Hides the items again while a message is shown: QStatusBar shows them whenever its height changes.
bool StatusLine::event(QEvent* event) {
  const bool done = QStatusBar::event(event);
  if (event->type() != QEvent::LayoutRequest) return done;
  QTimer::singleShot(0, items_, [this] {
    if (currentMessage().isEmpty() || items_->isHidden()) return;
    items_->hide();
    // Lets QStatusBar show the items again after the message.
    items_->setAttribute(Qt::WA_WState_ExplicitShowHide, false);
  });
  return done;
}

// Shortens the items until all fit: the recording first, the state of the run last. Chooses the forms before it shows
// any of them, because showing an item may resize the line.
void StatusLine::fit() {
  const std::array order{recording_, steps_, tokens_, speed_, account_, findings_, offer_, state_};
  std::array<int, order.size()> forms{};
  int needed = 2 * kSpace8 - kBetweenItems;
  for (const StatusItem* item : order) needed += item->room(0);
  for (std::size_t i = 0; i < order.size(); ++i)
    for (; forms[i] < order[i]->forms() && needed > width(); ++forms[i])
      needed += order[i]->room(forms[i] + 1) - order[i]->room(forms[i]);
  for (std::size_t i = 0; i < order.size(); ++i) order[i]->setForm(forms[i]);
  items_->layout()->activate();  // so that no text is painted with the width of the text before it
}

void StatusLine::showTraining(const LiveStatus& status, int runs, bool is_finished) {
  is_finished_ = is_finished;
  QString state = runs > 1 ? QString("Training %1 runs").arg(runs) : QString("Training");
  if (!status.running) state = (is_finished ? "Finished after " : "Paused after ") + countedText(status.step, "step");
  if (!status.error.empty()) state = "Stopped at step " + groupedText(status.step) + ": " + printedText(status.error);
  const QString warning = printedText(status.warning);
  QStringList forms{state};
  if (!warning.isEmpty()) forms.prepend(state + ". " + warning);
  QRgb Colors::*dot = status.running ? &Colors::good : &Colors::ink2;
  if (!warning.isEmpty()) dot = &Colors::attention;
  if (!status.error.empty()) dot = &Colors::bad;
  state_->setForms(forms, dot);
  state_->setToolTip(status.error.empty() ? warning : state);
  const bool moves = status.running && status.steps_per_s > 0;
  speed_->setForms(moves ? QStringList{rateText(status.steps_per_s)} : QStringList());
  tokens_->setForms(moves ? QStringList{groupedText(std::llround(status.tokens_per_s)) + " tokens/s"} : QStringList());
  fit();
}

void StatusLine::showState(const QString& text, Dot dot) {
  state_->setForms({text}, dot == Dot::good ? &Colors::good : &Colors::ink2);
  state_->setToolTip({});
  for (StatusItem* item : {speed_, tokens_}) item->setForms({});
  fit();
}

void StatusLine::offer(const QString& text, const QString& tip) {
  offer_->setForms(text.isEmpty() ? QStringList() : QStringList{text});
  offer_->setToolTip(tip);
  fit();
}

void StatusLine::showRecording(const QString& path, bool training, const History& history) {
  const QFileInfo file(path);
  const qint64 file_size = recordingBytes(path);
  const QString size = file_size > 0 ? ", " + formatBytes(file_size) : QString();  // standard input has none
  const QString name = file.suffix() == "moescope" ? file.completeBaseName() : file.fileName();
  if (path.isEmpty())
    recording_->setForms({"Not recorded"});
  else if (training && !is_finished_)
    recording_->setForms({"Recording " + name + size, "Recording" + size}, &Colors::bad);
  else
    recording_->setForms({name + size, name});
  const QString steps = stepsText(history);
  steps_->setForms(training ? QStringList() : QStringList{steps});
  QString tip = path.toHtmlEscaped();
  if (!tip.isEmpty()) tip += "<br>";
  tip += QString("%1; %2 of arrays and %3 of figures in memory")
             .arg(steps, formatBytes(history.array_bytes()), formatBytes(history.scalar_bytes()));
  if (history.kept_every() > 1)
    tip += QString("<br>For older steps, the arrays of 1 step in %1 are in memory").arg(history.kept_every());
  recording_->setToolTip(tip);
  fit();
}

// "21 names not read (A 18, B 3)", and without the part by run.
static QStringList formsByRun(const QString& text, const QString& by_run) {
  return by_run.isEmpty() ? QStringList{text} : QStringList{text + QStringLiteral(" (%1)").arg(by_run), text};
}

void StatusLine::showFindings(int severe, int warnings, bool ready, const QString& by_run) {
  QStringList parts;
  if (severe) parts << QString("%1 severe").arg(severe);
  if (warnings) parts << countedText(warnings, "warning");
  QRgb Colors::*dot = nullptr;
  if (severe || warnings) dot = severe ? &Colors::bad : &Colors::attention;
  if (parts.isEmpty()) parts << "No findings";
  findings_->setForms(ready ? formsByRun(parts.join(", "), by_run) : QStringList(), dot);
  findings_->setFocusPolicy(ready ? Qt::TabFocus : Qt::NoFocus);
  fit();
}

void StatusLine::showAccount(int to_confirm, int left_out, bool is_log, const QString& by_run) {
  QStringList forms;
  if (to_confirm > 0)
    forms << countedText(to_confirm, "pattern") + " to confirm";
  else if (left_out > 0)
    forms = formsByRun(countedText(left_out, "name") + " not read", by_run);
  else if (is_log)
    forms << "All names read";
  account_->setForms(forms, to_confirm > 0 ? &Colors::attention : nullptr);
  account_->setFocusPolicy(is_log ? Qt::TabFocus : Qt::NoFocus);
  fit();
}

}  // namespace moescope
