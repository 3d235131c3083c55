#include "widgets/microscaling/capture_bar.h"

#include <QHBoxLayout>
#include <QVBoxLayout>
#include <cmath>

#include "widgets/panel/format_text.h"
#include "widgets/panel/tensor_text.h"
#include "widgets/plots/axis.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

QString figures(const QuantSums& sums) {
  return CaptureBar::tr("SQNR %1, underflow %2, clipped %3")
      .arg(std::isinf(sums.sqnr_db()) ? CaptureBar::tr("exact")
                                      : withMinus(QString::number(sums.sqnr_db(), 'f', 1)) + CaptureBar::tr(" dB"),
           formatPercent(sums.underflow_share()), formatPercent(sums.clipped_share()));
}

// How what the panels below show differs from what the run does.
QStringList differences(const OperandFormat& format) {
  QStringList notes;
  switch (format.scheme) {
    case QuantScheme::fp8:
      if (format.granularity != ScaleGranularity::block_1x128)
        notes << CaptureBar::tr("128 values at a time are shown; more of them share their scale.");
      break;
    case QuantScheme::bf16:
    case QuantScheme::fp32:
      notes << CaptureBar::tr("%1 has no scales: map and microscope show what MX blocks would do to these values.")
                   .arg(format.scheme == QuantScheme::bf16 ? QStringLiteral("BF16") : QStringLiteral("FP32"));
      break;
    case QuantScheme::nvfp4:
      if (format.nvfp4.square)
        notes << CaptureBar::tr(
            "16 values at a time are shown, with a scale of their own; in the run 16 x 16 share it.");
      if (format.nvfp4.four_over_six != FourOverSix::off)
        notes << CaptureBar::tr("Blocks are shown with their largest value at 6; in the run some have it at 4.");
      break;
    case QuantScheme::mx:
      break;
  }
  if (format.hadamard > 0)
    notes << CaptureBar::tr("The run rotates them by a Hadamard matrix (%1) before it quantizes them.")
                 .arg(format.hadamard);
  if (format.rounding == Rounding::stochastic)
    notes << CaptureBar::tr(
        "The run rounds stochastically; the microscope draws its own random numbers, list and What if round to "
        "nearest.");
  return notes;
}

}  // namespace

CaptureBar::CaptureBar(QWidget* parent) : QWidget(parent) {
  const auto label = [this] {
    auto* made = new QLabel(this);
    made->setTextInteractionFlags(Qt::TextSelectableByMouse);
    made->setWordWrap(true);
    made->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    return made;
  };
  head_ = label();
  head_->setAccessibleName(tr("Operand that is shown"));
  QFont bold = head_->font();
  bold.setBold(true);
  head_->setFont(bold);
  details_ = label();
  note_ = label();
  const auto button = [this](const QString& text, const QString& tip) {
    auto* made = new QToolButton(this);
    made->setText(text);
    made->setToolTip(tip);
    made->hide();
    return made;
  };
  again_ = button(tr("Capture again"), tr("The same operand of the step that the run takes now (T)"));
  again_->setShortcut(Qt::Key_T);
  save_ = button(tr("Save..."), tr("Save the captured tensor as a .safetensors file"));
  recompute_ = button({}, tr("Train a copy of the run from its beginning up to that step and capture the operand "
                             "there; the open run is not affected"));
  cancel_ = button(tr("Cancel"), tr("Stop computing"));
  rotated_ = button(tr("Rotated"), tr("Show the values after the rotation, as they are quantized, or before it"));
  rotated_->setCheckable(true);
  rotated_->setChecked(true);
  connect(rotated_, &QToolButton::toggled, this, &CaptureBar::rotationToggled);
  connect(again_, &QToolButton::clicked, this, &CaptureBar::againRequested);
  connect(save_, &QToolButton::clicked, this, &CaptureBar::saveRequested);
  connect(cancel_, &QToolButton::clicked, this, &CaptureBar::cancelRequested);
  connect(recompute_, &QToolButton::clicked, this, [this] { emit recomputeRequested(offered_step_); });

  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(8, 4, 8, 4);
  auto* texts = new QVBoxLayout;
  texts->setSpacing(1);
  for (QLabel* line : {head_, details_, note_}) texts->addWidget(line);
  row->addLayout(texts, 1);
  for (QToolButton* each : {cancel_, rotated_, recompute_, again_, save_}) row->addWidget(each, 0, Qt::AlignTop);
  setSource(Source::none);
}

void CaptureBar::setSource(Source source) {
  source_ = source;
  for (QToolButton* button : {cancel_, again_, save_, rotated_}) button->hide();
  offer(-1);
  setTexts({},
           source == Source::live
               ? tr("Click a cell of Quantization error: the operand itself is captured from the running model and "
                    "opens here. Or open a file of tensors.")
           : source == Source::recording
               ? tr("A recording keeps statistics, not tensors. Click a cell of Quantization error and its step can be "
                    "recomputed, to the bit. Or open a file of tensors.")
               : tr("Open a file of tensors, or start a run and click a cell of Quantization error."),
           {});
}

void CaptureBar::showSample(const QString& about) {
  setSource(source_);
  if (!about.isEmpty()) setTexts({}, about, {});
}

void CaptureBar::setTexts(const QString& head, const QString& details, const QString& note) {
  const std::pair<QLabel*, QString> texts[] = {{head_, head}, {details_, details}, {note_, note}};
  for (const auto& [label, text] : texts) {
    label->setText(text);
    label->setVisible(!text.isEmpty());
  }
}

void CaptureBar::offer(std::int64_t step) {
  offered_step_ = step;
  recompute_->setVisible(step >= 0);
  recompute_->setText(tr("Compute step %1 again").arg(formatCount(static_cast<double>(step))));
}

void CaptureBar::showWaiting(const OperandPlace& place, bool paused) {
  offer(-1);
  cancel_->hide();
  setTexts(placeName(place),
           paused ? tr("Computing the next step for display only; the paused run is not changed")
                  : tr("Capturing it from the next step"),
           {});
}

void CaptureBar::showProgress(const OperandPlace& place, std::int64_t first, std::int64_t step, std::int64_t wanted) {
  offer(-1);
  cancel_->show();
  again_->hide();
  const auto count = [](std::int64_t n) { return formatCount(static_cast<double>(n)); };
  setTexts(placeName(place),
           first > 0
               ? tr("Training a copy of the run from its checkpoint of step %1: step %2 of %3")
                     .arg(count(first), count(step), count(wanted))
               : tr("Training a copy of the run from its beginning: step %1 of %2").arg(count(step), count(wanted)),
           {});
}

void CaptureBar::showCaptured(const CapturedOperand& captured, std::int64_t wanted_step, const QString& note) {
  cancel_->hide();
  save_->show();
  again_->setVisible(source_ == Source::live);
  rotated_->setVisible(captured.format.hadamard > 0);
  const QString step = formatCount(static_cast<double>(captured.step));
  QStringList details{tr("run %1").arg(QString::fromStdString(captured.run_name)), tr("step %1").arg(step),
                      tr("%1 x %2 values").arg(captured.rows).arg(captured.cols),
                      captured.format.scheme == QuantScheme::fp32
                          ? tr("not quantized (FP32)")
                          : tr("quantized to %1: %2").arg(operandFormatLabel(captured.format), figures(captured.sums))};
  if (captured.place.gemm_class() != GemmClass::payload)
    details << (captured.axis == BlockAxis::row ? tr("contracted along rows") : tr("contracted down columns"));
  if (!captured.expert_rows.empty()) details << tr("%1 experts").arg(captured.expert_rows.size() - 1);
  QStringList notes = differences(captured.format);
  const bool other_step = wanted_step >= 0 && wanted_step != captured.step;
  if (captured.ahead) notes << tr("The run is paused before step %1, which was computed for display only.").arg(step);
  if (other_step)
    notes << tr("The matrix shows step %1; this is step %2.")
                 .arg(formatCount(static_cast<double>(wanted_step)), captured.ahead ? step : tr("%1, now").arg(step));
  if (!note.isEmpty()) notes << note;
  offer(other_step ? wanted_step : -1);
  setTexts(placeName(captured.place), details.join(QStringLiteral("  \u00b7  ")), notes.join(QLatin1Char(' ')));
}

void CaptureBar::showFailed(const OperandPlace& place, const QString& why, std::int64_t offered_step) {
  cancel_->hide();
  offer(offered_step);
  again_->setVisible(source_ == Source::live);
  setTexts(placeName(place), {}, why);
}

QString CaptureBar::text() const {
  return QStringList{head_->text(), details_->text(), note_->text()}.join(QLatin1Char('\n'));
}

}  // namespace moescope
