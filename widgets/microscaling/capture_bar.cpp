#include "widgets/microscaling/capture_bar.h"

#include <QApplication>
#include <QHBoxLayout>
#include <QVBoxLayout>
#include <cmath>

#include "widgets/look/counted_text.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/format_text.h"
#include "widgets/panel/tensor_text.h"
#include "widgets/plots/axis.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

QString figures(const QuantSums& sums) {
  return QString("SQNR %1, flushed to zero %2, clipped %3")
      .arg(std::isinf(sums.sqnr_db()) ? QString("exact")
                                      : withMinus(QString::number(sums.sqnr_db(), 'f', 1)) + QString(" dB"),
           formatPercent(sums.underflow_share()), formatPercent(sums.clipped_share()));
}

// Describes the differences between the shown quantization and the quantization of the run.
QStringList differences(const OperandFormat& format) {
  QStringList notes;
  const bool is_nvfp4 = format.scheme == QuantScheme::nvfp4;
  if (format.scheme == QuantScheme::fp8 && format.granularity != ScaleGranularity::block_1x128)
    notes << QString("128 values at a time are shown; in the run more values share a scale.");
  if (!is_scaled(format))
    notes << QString("%1 has no scales: map and microscope show what MX blocks would do to these values.")
                 .arg(format.scheme == QuantScheme::bf16 ? QStringLiteral("BF16") : QStringLiteral("FP32"));
  if (is_nvfp4 && format.nvfp4.square)
    notes << QString(
        "16 values at a time are shown, with a scale of their own; in the run 16 × 16 values share a scale.");
  if (is_nvfp4 && format.nvfp4.four_over_six != FourOverSix::off)
    notes << QString(
        "The largest value of a block is scaled to 6 here; in the run that of some blocks is scaled to 4.");
  if (format.hadamard > 0)
    notes << QString("The run rotates them by a Hadamard matrix (%1) before it quantizes them.").arg(format.hadamard);
  if (format.rounding == Rounding::stochastic)
    notes << QString(
        "The run rounds stochastically; the microscope draws its own random numbers; the list and What if round to "
        "nearest.");
  return notes;
}

}  // namespace

CaptureBar::CaptureBar(QWidget* parent) : QWidget(parent) {
  head_ = new QLabel(this);
  head_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  head_->setAccessibleName("Operand that is shown");
  details_ = new FittedLabel(this);
  note_ = new QLabel(this);
  note_->setWordWrap(true);
  note_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  note_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  followFont(this, [this] {
    head_->setFont(semibold(QApplication::font()));
    for (QWidget* line : std::initializer_list<QWidget*>{details_, note_}) line->setFont(typeFont(Type::secondary));
  });
  makeButtons();
  auto* row = new QHBoxLayout;
  row->setSpacing(kSpace8);
  row->addWidget(head_);
  row->addWidget(details_, 1);
  for (QAbstractButton* button :
       std::initializer_list<QAbstractButton*>{cancel_, rotated_, recompute_, capture_again_, save_})
    row->addWidget(button);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, kSpace8);
  column->setSpacing(kSpace4);
  column->addLayout(row);
  column->addWidget(note_);
  setSource(Source::none);
}

void CaptureBar::makeButtons() {
  const auto button = [this](const QString& text, const QString& tip) {
    auto* made = new QToolButton(this);
    made->setText(text);
    made->setToolTip(tip);
    made->hide();
    return made;
  };
  capture_again_ = button("Capture again", "The same operand of the step that the run takes now (T)");
  capture_again_->setShortcut(Qt::Key_T);
  save_ = button("Save...", "Save the captured tensor as a .safetensors file");
  recompute_ = new QPushButton(this);
  recompute_->setObjectName("recompute");
  recompute_->setProperty(kPrimaryProperty, true);
  recompute_->setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
  recompute_->setToolTip(
      "Trains a copy of the run from its beginning up to that step and captures the operand there; the open run is not "
      "affected");
  cancel_ = button("Cancel", "Stop computing");
  rotated_ = button("Rotated", "Show the values after the rotation, as they are quantized, or before it");
  rotated_->setCheckable(true);
  rotated_->setChecked(true);
  connect(rotated_, &QToolButton::toggled, this, &CaptureBar::rotationToggled);
  connect(capture_again_, &QToolButton::clicked, this, &CaptureBar::againRequested);
  connect(save_, &QToolButton::clicked, this, &CaptureBar::saveRequested);
  connect(cancel_, &QToolButton::clicked, this, &CaptureBar::cancelRequested);
  connect(recompute_, &QPushButton::clicked, this, [this] { emit recomputeRequested(offered_step_); });
}

void CaptureBar::setSource(Source source) {
  source_ = source;
  news_ = false;
  for (QToolButton* button : {cancel_, capture_again_, save_, rotated_}) button->hide();
  offer(-1);
  QString long_form =
      "An example: double-click a value to change it, or open a file of tensors (.safetensors, .npy, .pt)";
  if (source == Source::live)
    long_form =
        "Click a cell of Quantization error to capture that operand from the running model, or open a file of tensors";
  if (source == Source::recording)
    long_form =
        "Click a cell of Quantization error to compute that operand again, to the bit: a recording keeps statistics, "
        "not tensors";
  setTexts({}, {long_form, "Open a file of tensors to see its blocks", "Open a file of tensors"}, {});
}

void CaptureBar::showSample(const QString& about) {
  setSource(source_);
  if (about.isEmpty()) return;
  news_ = true;
  setTexts({}, {}, about);
}

// The name of an operand is the head of its values, and part of the text while an example is shown.
void CaptureBar::setTexts(const QString& head, QStringList details, const QString& note) {
  const bool is_head = !head.isEmpty() && !(shows_example && shows_example());
  head_->setText(is_head ? head : QString());
  head_->setVisible(is_head);
  if (!is_head && !head.isEmpty()) {
    for (QString& form : details) form.prepend(head + QStringLiteral(": "));
    details << head;
  }
  details_->setTexts(details);
  details_->setVisible(!details.isEmpty());
  note_->setText(note);
  setToolTip(note);
  note_->setVisible(!note.isEmpty());
  emit textChanged();
}

void CaptureBar::offer(std::int64_t step) {
  offered_step_ = step;
  recompute_->setVisible(step >= 0);
  recompute_->setText(QString("Compute step %1 again").arg(formatCount(step)));
}

void CaptureBar::showWaiting(const OperandPlace& place, bool paused) {
  offer(-1);
  cancel_->hide();
  news_ = true;
  const QString from =
      paused ? QString("%1: computing the next step for display only; the paused run is not changed")
             : QString("%1: captured at the end of the next step; until then, the block below is another one");
  setTexts({}, {from.arg(placeName(place)), QString("Capturing %1").arg(placeName(place)), placeName(place)}, {});
}

void CaptureBar::showProgress(const OperandPlace& place, std::int64_t first, std::int64_t step, std::int64_t last) {
  offer(-1);
  cancel_->show();
  capture_again_->hide();
  news_ = true;
  const QString progress = QString("step %1 of %2").arg(formatCount(step), formatCount(last));
  const QString from =
      first > 0 ? QString("Training a copy of the run from its checkpoint of step %1: ").arg(formatCount(first))
                : QString("Training a copy of the run from its beginning: ");
  setTexts(placeName(place), {from + progress, progress}, {});
}

void CaptureBar::showCaptured(const CapturedOperand& captured, std::int64_t wanted_step, const QString& note) {
  cancel_->hide();
  news_ = false;
  save_->show();
  rotated_->setVisible(captured.format.hadamard > 0);
  const QString step = formatCount(captured.step);
  QStringList details{
      QString("run %1").arg(valueWords(withFormatLabels(QString::fromStdString(captured.run_name)))),
      QString("step %1").arg(step), QString("%1 \u00d7 %2 values").arg(captured.rows).arg(captured.cols),
      captured.format.scheme == QuantScheme::fp32
          ? QString("not quantized (FP32)")
          : QString("quantized to %1: %2").arg(operandFormatLabel(captured.format), figures(captured.sums))};
  if (captured.place.gemm_class() != GemmClass::payload)
    details << (captured.axis == BlockAxis::row ? QString("contracted along rows")
                                                : QString("contracted down columns"));
  if (!captured.expert_rows.empty()) details << countedText(captured.expert_rows.size() - 1, "expert");
  QStringList notes = differences(captured.format);
  const bool other_step = wanted_step >= 0 && wanted_step != captured.step;
  capture_again_->setVisible(source_ == Source::live && wanted_step < 0);  // at rest the step of the page is computed
  if (captured.ahead)
    notes << QString("The run is paused before step %1, which was computed for display only.").arg(step);
  if (!note.isEmpty()) notes << note;
  offer(other_step ? wanted_step : -1);
  QStringList forms;  // each form leaves out the last part of the form before it
  for (; !details.isEmpty(); details.removeLast()) forms << details.join(QStringLiteral("  \u00b7  "));
  setTexts(placeName(captured.place), forms, notes.join(QLatin1Char(' ')));
}

void CaptureBar::showFailed(const OperandPlace& place, const QString& reason, std::int64_t offered_step) {
  cancel_->hide();
  news_ = true;
  offer(offered_step);
  capture_again_->setVisible(source_ == Source::live && offered_step < 0);
  QStringList forms{"not captured"};
  if (shows_example && shows_example())
    forms = {"not captured; the block below is an example", "not captured; an example below", forms[0]};
  const QString first = forms[0];
  if (offered_step < 0) return setTexts(placeName(place), forms, reason);
  // The button says what to do, so that the reason takes no line of its own.
  for (const QString& more : {reason.section(QStringLiteral(". "), 0, 0), reason})
    forms.prepend(first + QStringLiteral(". ") + more);
  details_->setToolTip(reason);
  setTexts(placeName(place), forms, {});
}

QString CaptureBar::text() const {
  QStringList lines{head_->text(), details_->text(), note_->text()};
  lines.removeAll(QString());
  return lines.join(QLatin1Char('\n'));
}

}  // namespace moescope
