#include "app/bars/status_line.h"

#include <QEvent>
#include <QFileInfo>
#include <QLabel>
#include <QLocale>
#include <QTimer>

#include "app/bars/shortened_label.h"
#include "app/session/settings.h"
#include "core/numerics/matrix_units.h"
#include "core/telemetry/frame/kernel_names.h"
#include "core/telemetry/frame/metrics.h"
#include "core/telemetry/history/step_axis.h"
#include "widgets/look/type_scale.h"
#include "widgets/plots/axis.h"

namespace moescope {

namespace {

QString grouped(std::int64_t value) {
  return QLocale(QLocale::English).toString(static_cast<qlonglong>(value));
}

QString bytes(qint64 size) {
  return QLocale(QLocale::English).formattedDataSize(size, 1, QLocale::DataSizeSIFormat);
}

QString screenText(double frames_per_s, double frame_ms) {
  return QString("screen %1 fps, %2 ms").arg(frames_per_s, 0, 'f', 0).arg(frame_ms, 0, 'f', 1);
}

QString fileText(const QFileInfo& file) {
  if (file.isDir()) return "folder " + file.fileName();
  return QString("%1 %2, %3")
      .arg(file.suffix() == "moescope" ? "recording" : "log", file.fileName(), bytes(recordingBytes(file.filePath())));
}

}  // namespace

StatusLine::StatusLine(QWidget* parent) : QStatusBar(parent) {
  setSizeGripEnabled(false);
  const auto shortened = [this](Qt::TextElideMode mode, int least) {
    auto* label = new ShortenedLabel(mode, this);
    label->setMinimumWidth(least);
    return label;
  };
  training_ = add("Steps taken, and tokens per second of the last steps", shortened(Qt::ElideRight, 140));
  holdings_ = add("Where this run is recorded, and how much of it is in memory", shortened(Qt::ElideMiddle, 80));
  screen_ =
      add("Frames per second and the CPU time of each in the window's thread. Drawing new data uses at most 5 % of one "
          "core, or comes five times a second after you moved something; training never waits for it.");
  // Of one size, so that new numbers do not arrange the line anew.
  followFont(screen_, [this] {
    const QFontMetrics metrics = screen_->fontMetrics();
    const QMargins around = screen_->contentsMargins();
    screen_->setFixedSize(metrics.horizontalAdvance(screenText(20, 99.9)) + around.left() + around.right(),
                          metrics.height());
  });
  threads_ = add(
      "Threads of the training; the results do not depend on their number. \"BF16 on\": the processor's matrix units, "
      "which multiply BF16 and quantized operands and add in FP32; Run > Matrix units chooses them. Without them, "
      "and in FP32, OpenBLAS multiplies.");
  QString meanings;
  for (int kind = 0; kind < kNumProvenances; ++kind) {
    const auto provenance = static_cast<Provenance>(kind);
    meanings += QStringLiteral("<b>%1</b>: %2<br>").arg(provenance_name(provenance), provenance_meaning(provenance));
  }
  auto* kinds =
      add("<p>" + meanings + "</p><p>Unmarked figures are measured here.</p>", shortened(Qt::ElideRight, 120));
  kinds->setText("figures: measured here unless marked otherwise");
  findings_ = new QToolButton(this);
  findings_->setAutoRaise(true);
  findings_->setObjectName("findings_badge");
  findings_->setToolTip("Findings in the open runs: a click shows the list (F6)");
  connect(findings_, &QToolButton::clicked, this, &StatusLine::findingsClicked);
  showFindings(0, 0, false);
  connect(this, &QStatusBar::messageChanged, this, [this](const QString& text) {
    if (text.isEmpty()) findings_->setVisible(findings_ready_);
  });
  addWidget(training_);
  addWidget(findings_);
  addWidget(holdings_, 1);
  for (QLabel* label : {screen_, threads_, kinds}) addPermanentWidget(label);
}

// When the line gets another height, Qt arranges it anew and soon shows again what a message had hidden.
bool StatusLine::event(QEvent* event) {
  const bool done = QStatusBar::event(event);
  if (event->type() == QEvent::LayoutRequest) QTimer::singleShot(0, this, &StatusLine::hideUnderMessage);
  return done;
}

void StatusLine::hideUnderMessage() {
  if (currentMessage().isEmpty()) return;
  for (QWidget* item : std::initializer_list<QWidget*>{training_, findings_, holdings_}) {
    if (!item->isVisible()) continue;
    item->hide();
    item->setAttribute(Qt::WA_WState_ExplicitShowHide, false);  // so that it comes back when the message goes
  }
}

QLabel* StatusLine::add(const QString& tip, QLabel* label) {
  if (!label) label = new QLabel(this);
  label->setToolTip(tip);
  label->setContentsMargins(4, 0, 8, 0);
  return label;
}

void StatusLine::showTraining(const LabStatus& status) {
  QString text = "step " + grouped(status.step);
  if (!status.error.empty())
    text += ", stopped: " + inPrint(QString::fromStdString(status.error));
  else if (!status.running)
    text += ", paused";
  else if (status.tokens_per_s > 0)
    text += ", " + grouped(std::llround(status.tokens_per_s)) + " tokens/s";
  if (!status.warning.empty()) text += ", " + inPrint(QString::fromStdString(status.warning));
  training_->setText(text);
}

void StatusLine::showFollowing(const QString& text) {
  training_->setText(text);
}

void StatusLine::showScreen(double frames_per_s, double frame_ms) {
  screen_->setText(screenText(frames_per_s, frame_ms));
}

void StatusLine::showHoldings(const QString& path, const QString& attached_to, const History& history) {
  const std::int64_t steps = counted_steps(history);
  QString text = !attached_to.isEmpty() ? "not recorded by this window"
                 : path.isEmpty()       ? "not recorded: in memory only"
                                        : fileText(QFileInfo(path));
  text += steps == 1 ? QString(", 1 step") : QString(", %1 steps").arg(grouped(steps));
  if (history.kept_every() > 1) text += QString(", older arrays 1 of %1 in memory").arg(history.kept_every());
  holdings_->setText(text);
  holdings_->setToolTip(QString("%1<br>%2 of arrays and %3 of figures in memory")
                            .arg(path.toHtmlEscaped(), bytes(history.array_bytes()), bytes(history.scalar_bytes())));
}

void StatusLine::showFindings(int severe, int warnings, bool ready) {
  QStringList parts;
  if (severe) parts << QString("%1 severe").arg(severe);
  if (warnings) parts << QString("%1 %2").arg(warnings).arg(warnings == 1 ? "warning" : "warnings");
  const QString mark = QString::fromUtf8(severe ? "\u25b2 " : warnings ? "\u25c6 " : "");
  findings_->setText(mark + (parts.isEmpty() ? QString("no findings") : parts.join(", ")));
  findings_ready_ = ready;
  if (currentMessage().isEmpty()) findings_->setVisible(ready);  // a message hides it and must not be drawn over
}

void StatusLine::showThreads(int threads) {
  QString text = QString("%1 %2").arg(threads).arg(threads == 1 ? "thread" : "threads");
  if (has_matrix_unit())
    text += ", BF16 on " + QString::fromStdString(matrix_unit_title(kMatrixUnitNames[static_cast<int>(matrix_unit())]));
  threads_->setText(text);
}

}  // namespace moescope
