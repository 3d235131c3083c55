#include "widgets/microscaling/tensor_verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "core/files/assets.h"
#include "core/findings/quant_watch.h"
#include "core/recording/history/router_window.h"
#include "widgets/look/counted_text.h"
#include "widgets/panel/format_text.h"
#include "widgets/panel/tensor_text.h"
#include "widgets/plots/axis.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

QString verdictDecibels(double db) {
  return std::isinf(db) ? QString("every value") : QString("%1 dB").arg(withMinus(QString::number(db, 'f', 1)));
}

// Returns the lowest SQNR of several tensors as text: "29.8 dB or more".
QString sqnrOrMore(double db) {
  return std::isinf(db) ? verdictDecibels(db) : QString("%1 or more").arg(verdictDecibels(db));
}

// Returns the loss beyond that of normally distributed values, relative to the limits. Above 1 it is beyond a limit.
double formatExcess(const TensorEntry& entry, const QuantSums& normal, const FormatLimits& limits) {
  if (entry.nan_blocks > 0) return HUGE_VAL;
  const double lost = (normal.sqnr_db() - entry.sqnr_db) / limits.db;
  return std::max(lost, (entry.underflow_share - normal.underflow_share()) / limits.to_zero);
}

struct TensorScan {
  std::vector<const TensorEntry*> known;  // tensors with figures, the worst first
  std::size_t usable = 0, flagged = 0;
  Sign sign = Sign::unsure;
};

TensorScan tensorScan(const TensorListModel& tensors, const OperandFormat& format) {
  TensorScan scan;
  for (const TensorEntry& entry : tensors.entries()) {
    const bool vector = entry.source.rows() == 1 && entry.source.slices() == 1;
    if (!entry.usable || entry.scales || entry.source.captured() || vector) continue;
    ++scan.usable;
    if (entry.state == TensorEntry::Figures::known) scan.known.push_back(&entry);
  }
  if (scan.known.empty()) return scan;
  const QuantSums normal = normalFigures(format);
  const auto by = [&](const FormatLimits& limits) {
    return [&](const TensorEntry* entry) { return formatExcess(*entry, normal, limits); };
  };
  std::ranges::stable_sort(scan.known, std::ranges::greater(), by(kAttentionLimits));
  scan.flagged = std::ranges::count_if(
      scan.known, [](double e) { return e > 1; }, by(kAttentionLimits));
  const bool bad = std::ranges::any_of(
      scan.known, [](double e) { return e > 1; }, by(kBadLimits));
  scan.sign = Sign::good;
  if (scan.known.size() < scan.usable) scan.sign = Sign::unsure;
  if (scan.flagged > 0) scan.sign = Sign::attention;
  if (bad) scan.sign = Sign::bad;
  return scan;
}

QString verdictWordOf(Sign sign) {
  if (sign == Sign::good) return QString("Healthy");
  if (sign == Sign::attention) return QString("Needs attention");
  if (sign == Sign::bad) return QString("Unhealthy");
  return QString("Too early to tell");
}

QString verdictFormat(const OperandFormat& format) {
  return operandFormatLabel(format).section(QLatin1Char(' '), 0, 0).remove(QLatin1Char(','));
}

double leastSqnr(const std::vector<const TensorEntry*>& tensors, std::size_t from) {
  double lowest = HUGE_VAL;
  for (std::size_t i = from; i < tensors.size(); ++i) lowest = std::min(lowest, tensors[i]->sqnr_db);
  return lowest;
}

QStringList verdictOfWorst(const TensorScan& scan, const OperandFormat& format) {
  const TensorEntry& worst = *scan.known.front();
  if (worst.nan_blocks > 0)
    return {"holds NaN or infinity in " + countedText(worst.nan_blocks, "block"), QString("holds NaN or infinity")};
  const QString head =
      QString("keeps %1 in %2 and loses %3 of its values to zero")
          .arg(verdictDecibels(worst.sqnr_db), verdictFormat(format), formatPercent(worst.underflow_share));
  const QString brief = QString("keeps %1").arg(verdictDecibels(worst.sqnr_db));
  const std::size_t other_tensors = scan.flagged - 1;
  QString more;
  if (other_tensors == 1) more = QString("; 1 other tensor is like it");
  if (other_tensors > 1) more = QString("; %1 other tensors are like it").arg(formatCount(other_tensors));
  if (scan.flagged == scan.known.size()) return {head + more, brief + more, brief};
  const QString other_text = (other_tensors == 0 ? QString("; all others keep %1") : QString("; the rest keep %1"))
                                 .arg(sqnrOrMore(leastSqnr(scan.known, scan.flagged)));
  return {head + more + other_text, head + more, brief + more, brief};
}

QStringList verdictOfAll(const TensorScan& scan, const OperandFormat& format) {
  double to_zero = 0;
  for (const TensorEntry* entry : scan.known) to_zero = std::max(to_zero, entry->underflow_share);
  const QString lowest = sqnrOrMore(leastSqnr(scan.known, 0));
  const QString subject = scan.known.size() == 1 ? QString("The tensor keeps")
                                                 : QString("All %1 tensors keep").arg(formatCount(scan.known.size()));
  const QString brief = QString("%1 %2 in %3").arg(subject, lowest, verdictFormat(format));
  return {QString("%1 and lose at most %2 of their values to zero").arg(brief, formatPercent(to_zero)), brief};
}

}  // namespace

QuantSums normalFigures(const OperandFormat& format) {
  constexpr std::size_t kRows = 256, kColumns = 512;
  static const std::vector<float> values = [] {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    std::vector<float> made(kRows * kColumns);
    for (float& value : made) value = normal(generator);
    return made;
  }();
  QuantSums sums;
  std::vector<float> out(values.size());
  quantize_operand({{values.data(), kRows, kColumns, kColumns}, format, BlockAxis::row, {}, &sums},
                   {out.data(), kRows, kColumns});
  return sums;
}

int worstTensor(const TensorListModel& tensors, const OperandFormat& format) {
  const TensorScan scan = tensorScan(tensors, format);
  return scan.flagged == 0 ? -1 : to_int(scan.known.front() - tensors.entries().data());
}

VerdictLine::Judgement tensorVerdict(const TensorListModel& tensors, const OperandFormat& format) {
  const TensorScan scan = tensorScan(tensors, format);
  if (scan.known.empty()) return {};
  VerdictLine::Judgement verdict{
      .sign = scan.sign, .word = verdictWordOf(scan.sign), .link = {}, .sentence = {}, .about = {}};
  const QString measured =
      QString("%1 of %2 tensors measured").arg(formatCount(scan.known.size()), formatCount(scan.usable));
  if (scan.flagged > 0) {
    verdict.link = tensors.shortName(to_int(scan.known.front() - tensors.entries().data()));
    verdict.sentence = verdictOfWorst(scan, format);
  } else {
    verdict.sentence = scan.sign == Sign::good ? verdictOfAll(scan, format) : QStringList{measured};
  }
  QString about = operandFormatLabel(format);
  if (scan.flagged > 0 && scan.known.size() < scan.usable) about.prepend(measured + QStringLiteral(", "));
  verdict.about << about << operandFormatLabel(format) << verdictFormat(format);
  return verdict;
}

namespace {

// Returns by how much an operand is beyond the limits: the share flushed to zero, the loss of SQNR in dB, the share of
// clipped blocks; 0 within a limit. The worst operand has the largest of these in this order.
std::array<double, 3> lossBeyondLimits(const QuantFrame& quant) {
  if (!quant.format.element || std::isnan(quant.sqnr_db)) return {};
  const double lost_db = bell_sqnr_db(quant.format) - quant.sqnr_db;
  const bool clips = quant.format.scale == QuantScale::power_of_two && quant.clipped_blocks > kManyClippedBlocks &&
                     quant.sqnr_db < bell_sqnr_db_by_rceil(quant.format) - kMinClippingCostDb;
  return {quant.underflow > underflow_limit(quant.format) ? quant.underflow : 0.0,
          lost_db > kMaxSqnrLoss ? lost_db : 0.0, clips ? quant.clipped_blocks : 0.0};
}

bool needsAttention(const QuantFrame& quant) {
  return lossBeyondLimits(quant) != std::array<double, 3>{};
}

const QuantFrame* lowestSqnr(const TelemetryFrame& frame) {
  const QuantFrame* lowest = nullptr;
  for (const QuantFrame& quant : frame.quants)
    if (!std::isnan(quant.sqnr_db) && (!lowest || quant.sqnr_db < lowest->sqnr_db)) lowest = &quant;
  return lowest;
}

// "Lowest SQNR 28.1 dB, in layer 3, routed experts, w2 dY dgrad; at most 0.1 % flushed to zero"
QStringList figuresOfOperands(const TelemetryFrame& frame) {
  const QuantFrame* worst = lowestSqnr(frame);
  if (!worst) return {};
  const float to_zero = std::ranges::max(frame.quants, {}, &QuantFrame::underflow).underflow;
  const QString lowest = QString("Lowest SQNR %1").arg(verdictDecibels(worst->sqnr_db));
  const QString placed = lowest + QStringLiteral(", in ") + placeName(*worst);
  return {QString("%1; at most %2 flushed to zero").arg(placed, formatPercent(to_zero)), placed, lowest};
}

// "loses 11.2 % of its values to zero: those below 1/24 to 1/12 of the largest in their block; bell-shaped data in
// MXFP4 lose 0.1 %; lowest SQNR 28.1 dB, in layer 3, ..."
QStringList lossOfOperand(const QuantFrame& quant, const TelemetryFrame& frame) {
  const auto [to_zero, lost_db, clipped] = lossBeyondLimits(quant);
  const QuantFrame& lowest = *lowestSqnr(frame);
  QString loss = QString("keeps %1").arg(verdictDecibels(quant.sqnr_db)), limit_text;
  QString bell = QString("keep %1").arg(verdictDecibels(bell_sqnr_db(quant.format)));
  if (to_zero > 0) {
    loss = QString("loses %1 of its values to zero").arg(formatPercent(to_zero));
    const FormatTraits& element = traits(*quant.format.element);
    const double ratio = 2 * element.max / element.min_subnormal;  // a power of two may scale the largest to max / 2
    const QString lower_limit = QString("1/%1").arg(formatCount(std::llround(ratio)));
    limit_text = QString(": those below %1 of the largest in their block")
                     .arg(quant.format.scale == QuantScale::power_of_two
                              ? lower_limit + QString(" to 1/%1").arg(formatCount(std::llround(ratio / 2)))
                              : lower_limit);
    if (quant.operand == OperandRole::x && std::string_view(gemm_name(quant.gemm)) == "w2")
      limit_text += QString(" (x is the product SiLU(w1 x) · w3 x)");
    bell = QString("lose %1").arg(formatPercent(bell_underflow(quant.format)));
  } else if (!(lost_db > 0)) {
    loss += QString("; %1 of its blocks are clipped").arg(formatPercent(clipped));
  }
  bell = QString("; bell-shaped data in %1 ").arg(formatLabel(quant.format).section(u' ', 0, 0)) + bell;
  const QString sqnr = QString("; lowest SQNR %1").arg(verdictDecibels(lowest.sqnr_db));
  const QString placed = sqnr + QString(", in ") + placeName(lowest);
  return {loss + limit_text + bell + placed, loss + limit_text + bell, loss + limit_text, loss + sqnr, loss};
}

// Returns the operand that needs attention most; nullptr if none does.
const QuantFrame* worstOf(const TelemetryFrame& frame) {
  const auto worst = std::ranges::max_element(frame.quants, {}, lossBeyondLimits);
  return worst != frame.quants.end() && needsAttention(*worst) ? &*worst : nullptr;
}

// True if the operands lost as much a window before, as the finding demands (quant_watch.h).
bool lasts(const QuantFrame& worst, const TelemetryFrame& frame, const History& run) {
  const auto before = run.quant_frame_at(frame.step - kWindowSteps);
  return before && frame.step + 1 >= kLastingFrames * kWindowSteps &&
         std::ranges::any_of(before->quants, [&](const QuantFrame& quant) {
           return quant.operand == worst.operand && quant.format == worst.format && needsAttention(quant);
         });
}

}  // namespace

std::optional<OperandPlace> operandOfVerdict(const Selection& selection) {
  const auto frame = selection.quantFrame();
  if (!frame) return std::nullopt;
  const QuantFrame* worst = worstOf(*frame);
  if (!worst) worst = lowestSqnr(*frame);
  return worst ? std::optional<OperandPlace>(*worst) : std::nullopt;
}

VerdictLine::Judgement operandVerdict(const Selection& selection) {
  const History* run = selection.history();
  if (!run || run->steps().empty()) return {};
  const auto frame = selection.quantFrame();
  const bool is_alone = selection.histories().size() == 1;
  const QString head = is_alone ? QString() : runLabel(selection, selection.run()) + QStringLiteral(": ");
  QString about = is_alone ? QString() : QString("Compare judges the loss");
  if (!frame) {
    if (run_origin(run->info()) == RunOrigin::checkpoint) return {};
    const GemmClass gemm_class = selection.tensor().gemm_class();
    if (!run->info().config_toml.empty())
      return {Sign::unsure,
              head + "Not quantized",
              "Choose a number format",
              {QString("for the %1, which compute in FP32").arg(gemmClassLabel(gemm_class)), "in Set-up"},
              {about}};
    const QString reason = noQuantizationNotice(run->info(), nullptr, gemm_class);
    return {Sign::unsure, head + "Not judged", {}, {reason.section(u'\n', 0, 0)}, {about}};
  }
  const QuantFrame* worst = worstOf(*frame);
  if (worst && is_alone) about = "Worst by its own values; Operand costs ranks by gradient";
  Sign sign = Sign::note;  // the loss may be worse without a finding
  if (worst) sign = lasts(*worst, *frame, *run) ? Sign::attention : Sign::unsure;
  QString word = worst ? QString("Finding on formats") : QString("No finding on formats");
  if (sign == Sign::unsure) word = verdictWordOf(sign);
  return {sign,
          head + word,
          worst ? placeName(*worst) : QString(),
          worst ? lossOfOperand(*worst, *frame) : figuresOfOperands(*frame),
          {about}};
}

QString explainOperandVerdict() {
  return QString::fromUtf8(asset("panels/operand_verdict.html"))
      .arg(kMaxSqnrLoss)
      .arg(formatPercent(kMaxMoreUnderflow))
      .arg(kUnderflowTimes)
      .arg(formatPercent(kMinUnderflow));
}

QString explainTensorVerdict() {
  return QString::fromUtf8(asset("panels/tensor_verdict.html"))
      .arg(formatPercent(kAttentionLimits.to_zero))
      .arg(kAttentionLimits.db)
      .arg(formatPercent(kBadLimits.to_zero))
      .arg(kBadLimits.db);
}

}  // namespace moescope
