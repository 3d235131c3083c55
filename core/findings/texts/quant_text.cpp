// The sentences of findings on quantized operands.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "core/files/text/words.h"
#include "core/findings/quant_watch.h"

namespace moescope {
namespace {

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
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

// "shared experts", "dense FFN"
std::string class_words(GemmClass gemm_class) {
  if (gemm_class == GemmClass::experts) return "routed experts";
  if (gemm_class == GemmClass::dense_ffn) return "dense FFN";
  std::string words = gemm_class_name(gemm_class);
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::string tensor_name(const QuantFrame& quant) {
  return class_words(quant.gemm_class()) + " " + gemm_name(quant.gemm) + " " + operand_name(quant.operand) + " (" +
         direction_name(quant.direction) + ")";
}

// Returns a sentence with all layers and classes that the finding is about; empty if there is only one.
std::string worst_of(const QuantFault& fault) {
  std::vector<int> layers = fault.layers;
  std::erase(layers, -1);  // the head is not a layer; its class names it
  std::ranges::sort(layers);
  std::string other_places;
  if (layers.size() > 1) other_places = "layers " + listed(layers, 12);
  if (fault.classes.size() > 1) {
    if (!other_places.empty()) other_places += " and of ";
    std::string classes = joined(fault.classes, ", ", class_words);
    other_places += classes.replace(classes.rfind(','), 1, " and");
  }
  return other_places.empty() ? other_places : " It is the worst of " + other_places + ".";
}

}  // namespace

void describe(const QuantFault& fault, Finding& finding) {
  const QuantFrame& worst = fault.worst;
  const std::string format = worst.format.name, what = std::string(" of ") + operand_name(worst.operand) + " (" +
                                                       class_words(worst.gemm_class()) + ")";
  const std::string place =
      (worst.layer < 0 ? "" : fmt::format("Layer {}, ", worst.layer)) + tensor_name(worst) + " in " + format + ": ";
  const std::string other_places = worst_of(fault), underflow = percent(worst.underflow),
                    sqnr = decimal(worst.sqnr_db, 3);
  if (finding.kind == FindingKind::underflow) {
    finding.title = "Up to " + underflow + what + " are flushed to zero in " + format;
    finding.observation = place + underflow + " of the non-zero values became 0; SQNR is " + sqnr +
                          " dB, which does not show this." + other_places;
    finding.meaning =
        "Small values are lost. With rounding to nearest they are lost at every step, which does not average out; "
        "stochastic rounding rounds some of them up.";
  } else if (finding.kind == FindingKind::clipping) {
    finding.title = "Block maxima" + what + " are clipped in " + format;
    finding.observation = place + percent(worst.clipped_blocks) + " of the blocks and " + percent(worst.clipped) +
                          " of the values are clipped." + other_places;
    finding.meaning = why_clipped(worst.format);
  } else {
    finding.title = "Low SQNR" + what + ": " + sqnr + " dB in " + format;
    finding.observation = place + sqnr + " dB, " + bell_text(worst.format) + "; " + underflow +
                          " flushed to zero, crest factor " + decimal(worst.crest, 2) + "." + other_places;
    finding.meaning = why_noisy(worst.format);
  }
}

}  // namespace moescope
