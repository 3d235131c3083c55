#include "core/findings/quant_watch.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/io/words.h"
#include "core/numerics/quant_format.h"

namespace moescope {

namespace {

// Returns the recipe setting of a class.
Setting recipe_of(GemmClass of) {
  return *find_field("precision." + std::string(gemm_class_name(of)));
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

bool may_clip(const QuantFormat& format) {
  return format.scale == QuantScale::power_of_two || format.scale == QuantScale::unknown;
}

std::string why_clipped(const QuantFormat& format) {
  const double cut = largest_cut(format);
  if (!(cut > 0)) return "The largest value of a block is clipped, which adds noise. MX scales by RCEIL never clip.";
  return upper(scale_rule_name(format.operand->rule)) + " reduces the largest value of a block by up to " +
         percent(cut) + " in " + upper(traits(*format.element).name) +
         ", which adds noise. Scales by RCEIL never clip.";
}

// Returns a text with the SQNR of bell-shaped data; if the scales are not known, with that of MX.
std::string bell_text(const QuantFormat& format) {
  return "where bell-shaped data have " + decimal(bell_sqnr_db(format), 3) +
         (format.scale == QuantScale::unknown ? " dB in MX" : " dB");
}

std::string why_noisy(const QuantFormat& format) {
  const bool clips = !(largest_cut(format) == 0);
  return std::string("Values of very different sizes share a scale") + (clips ? ", or block maxima are clipped" : "") +
         ": the error is larger than the error of the format on bell-shaped data.";
}

std::string tensor_name(const QuantFrame& quant) {
  const std::string of_class =
      quant.gemm_class() == GemmClass::experts ? "" : std::string(gemm_class_name(quant.gemm_class())) + " ";
  return of_class + gemm_name(quant.gemm) + " " + operand_name(quant.operand) + " (" + direction_name(quant.direction) +
         ")";
}

// Returns a sentence with all layers and classes that the finding is about; empty if there is only one.
std::string worst_of(std::vector<int> layers, const std::set<GemmClass>& classes) {
  std::erase(layers, -1);  // the head is not a layer; its class names it
  std::ranges::sort(layers);
  std::string others;
  if (layers.size() > 1) others = "layers " + listed(layers, 12);
  if (classes.size() > 1) {
    others += others.empty() ? "" : " and of ";
    for (const GemmClass of : classes)
      others += std::string(of == *classes.begin()    ? ""
                            : of == *classes.rbegin() ? " and "
                                                      : ", ") +
                gemm_class_name(of);
  }
  return others.empty() ? others : " It is the worst of " + others + ".";
}

}  // namespace

void QuantWatch::note(FindingKind kind, const QuantFrame& quant, double value, bool higher_is_worse) {
  Case& found = fresh_[{kind, quant.operand, quant.format}];
  const auto place = std::ranges::find(found.layers, quant.layer);
  if (place == found.layers.end()) found.layers.push_back(quant.layer);
  const bool first = found.classes.empty();
  found.classes.insert(quant.gemm_class());
  if (!first && (higher_is_worse ? value <= found.value : value >= found.value)) return;
  found.value = value;
  found.worst = quant;
}

void QuantWatch::frame(const TelemetryFrame& frame) {
  step_ = frame.step;
  fresh_.clear();
  for (const QuantFrame& quant : frame.quants) {
    const QuantFormat format = quant_format(quant.format);
    if (!format.element) continue;  // BF16, or a name in a log of another program that is unknown here
    const auto sqnr = static_cast<double>(quant.sqnr_db), underflow = static_cast<double>(quant.underflow);
    const auto blocks = static_cast<double>(quant.clipped_blocks);
    if (sqnr < bell_sqnr_db(format) - kLowSqnrBy) note(FindingKind::low_sqnr, quant, sqnr, false);
    if (underflow > std::max(kLeastUnderflow, kUnderflowTimes * bell_underflow(format)))
      note(FindingKind::underflow, quant, underflow, true);
    if (may_clip(format) && blocks > kClippedBlocks && sqnr < bell_sqnr_db_by_rceil(format) - kClippingCosts)
      note(FindingKind::clipping, quant, blocks, true);
  }
  for (auto& [group, found] : fresh_) {
    const auto before = cases_.find(group);
    found.frames = before == cases_.end() ? 1 : before->second.frames + 1;
    found.since = before == cases_.end() ? step_ : before->second.since;
  }
  cases_ = fresh_;
}

void QuantWatch::findings(std::vector<Finding>& out) const {
  for (const auto& [group, found] : cases_) {
    if (found.frames < kLastingFrames) continue;
    const QuantFrame& worst = found.worst;
    const std::string what = std::get<2>(group);
    const QuantFormat format = quant_format(worst.format);
    Finding finding;
    finding.kind = std::get<0>(group);
    finding.severity = Severity::warning;
    finding.run = run_;
    finding.steps = {found.since, step_};
    if (worst.layer >= 0) finding.layers = {worst.layer};
    for (const int layer : found.layers) {
      if (layer != worst.layer && layer >= 0) finding.layers.push_back(layer);
    }
    finding.tensor = worst;
    for (const GemmClass of : found.classes) finding.knobs.push_back(recipe_of(of));
    const std::string where = (worst.layer < 0 ? "" : "Layer " + std::to_string(worst.layer) + ", ") +
                              tensor_name(worst) + " in " + what + ": ";
    const std::string more = worst_of(found.layers, found.classes);
    const auto underflow = static_cast<double>(worst.underflow), sqnr = static_cast<double>(worst.sqnr_db);
    const std::string of = std::string(" of ") + operand_name(worst.operand);
    if (finding.kind == FindingKind::underflow) {
      finding.metric = FigureKey("underflow");
      finding.title = percent(underflow) + of + " become 0 in " + what;
      finding.observation = where + percent(underflow) + " of the non-zero values became 0; SQNR is " +
                            decimal(sqnr, 3) + " dB, which does not show the underflow." + more;
      finding.why =
          "Small values are lost. With rounding to nearest they are lost at every step, which does not average out; "
          "stochastic rounding rounds some of them up.";
    } else if (finding.kind == FindingKind::clipping) {
      finding.metric = FigureKey("clipped_blocks");
      if (static_cast<double>(worst.clipped_blocks) < kManyClippedBlocks) finding.severity = Severity::note;
      finding.title = "Block maxima" + of + " are clipped in " + what;
      finding.observation = where + percent(static_cast<double>(worst.clipped_blocks)) + " of the blocks and " +
                            percent(static_cast<double>(worst.clipped)) + " of the values are clipped." + more;
      finding.why = why_clipped(format);
    } else {
      finding.metric = FigureKey("sqnr_db");
      finding.title = "Low SQNR" + of + ": " + decimal(sqnr, 3) + " dB in " + what;
      finding.observation = where + decimal(sqnr, 3) + " dB, " + bell_text(format) + "; " + percent(underflow) +
                            " underflow, crest factor " + decimal(static_cast<double>(worst.crest), 2) + "." + more;
      finding.why = why_noisy(format);
    }
    out.push_back(std::move(finding));
  }
}

}  // namespace moescope
