#include "core/findings/quant_watch.h"

#include <algorithm>
#include <utility>

namespace moescope {

double underflow_limit(const QuantFormat& format) {
  const double bell = bell_underflow(format);
  return std::min(std::max(kMinUnderflow, kUnderflowTimes * bell), bell + kMaxMoreUnderflow);
}

void QuantWatch::note(FindingKind kind, const QuantFrame& quant, double value, bool higher_is_worse) {
  QuantFault& found = fresh_[{kind, quant.operand, quant.format.name}];
  const auto place = std::ranges::find(found.layers, quant.layer);
  if (place == found.layers.end()) found.layers.push_back(quant.layer);
  const bool first = found.classes.empty();
  found.classes.insert(quant.gemm_class());
  if (!first && (higher_is_worse ? value <= found.value : value >= found.value)) return;
  found.value = value;
  found.worst = quant;
}

void QuantWatch::frame(const TelemetryFrame& frame, bool is_counted) {
  step_ = frame.step;
  fresh_.clear();
  for (const QuantFrame& quant : frame.quants) {
    const QuantFormat& format = quant.format;
    if (!format.element) continue;  // BF16, or a name in a log of another program that is unknown here
    const double sqnr = quant.sqnr_db, underflow = quant.underflow;
    const double blocks = quant.clipped_blocks;
    if (sqnr < bell_sqnr_db(format) - kMaxSqnrLoss) note(FindingKind::low_sqnr, quant, sqnr, false);
    if (underflow > underflow_limit(format)) note(FindingKind::underflow, quant, underflow, true);
    const bool may_clip = format.scale == QuantScale::power_of_two || format.scale == QuantScale::unknown;
    if (may_clip && blocks > kClippedBlocks && sqnr < bell_sqnr_db_by_rceil(format) - kMinClippingCostDb)
      note(FindingKind::clipping, quant, blocks, true);
  }
  for (auto& [group, found] : fresh_) {
    const auto before = faults_.find(group);
    found.frames = (before == faults_.end() ? 0 : before->second.frames) + int{is_counted};
    found.first_step = before == faults_.end() ? step_ : before->second.first_step;
  }
  std::erase_if(fresh_, [](const auto& fault) { return fault.second.frames == 0; });
  if (!is_counted) fresh_.merge(faults_);
  faults_ = fresh_;
}

void QuantWatch::findings(std::vector<Finding>& out) const {
  // Of one kind, the worst fault comes first, as in the verdict of Microscaling.
  std::vector<std::pair<Group, QuantFault>> sorted_faults(faults_.begin(), faults_.end());
  std::ranges::stable_sort(sorted_faults, {}, [](const auto& fault) {
    const FindingKind kind = std::get<FindingKind>(fault.first);
    return std::pair(kind, kind == FindingKind::low_sqnr ? fault.second.value : -fault.second.value);
  });
  for (const auto& [group, fault] : sorted_faults) {
    if (fault.frames < kLastingFrames) continue;
    Finding& finding = out.emplace_back(finding_of(std::get<FindingKind>(group), run_, {fault.first_step, step_}));
    if (finding.kind == FindingKind::clipping && fault.value < kManyClippedBlocks) finding.severity = Severity::note;
    if (fault.worst.layer >= 0) finding.layers = {fault.worst.layer};
    for (const int layer : fault.layers)
      if (layer != fault.worst.layer && layer >= 0) finding.layers.push_back(layer);
    finding.tensor = fault.worst;
    for (const GemmClass gemm_class : fault.classes)
      finding.knobs.push_back(*find_field("precision." + std::string(gemm_class_name(gemm_class))));
    describe(fault, finding);
  }
}

}  // namespace moescope
