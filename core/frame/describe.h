// The fields of the rows of a frame that hold figures, declared once. Recordings, JSON lines and packed frames are
// written and read by visitors of these fields, so that they all contain a new field.
//
// describe(row, visitor) calls, in the order of the columns of a recording,
//   visitor.layer(int&, LayerColumn)            among all layers
//   visitor.figures(row, table)                 the floats of a table of figures.h
//   visitor.by_expert(vector<T>&, Column)       [E], or empty
//   visitor.bins(vector<uint32>&, Column)       [kHalfOctaves], [kWideHalfOctaves], or empty
//   visitor.bins(HalfOctaves&, Column)
//   visitor.name(Enum&, Column, Names)          an enumerator by its name
//   visitor.text(string&, Column)
// and the calls that the comments of single describe() functions name. `row` may be const.
#pragma once

#include <concepts>
#include <optional>
#include <string_view>
#include <type_traits>

#include "core/frame/figures.h"

namespace moescope {

struct Column {
  const char* name;       // column in recordings, key in JSON lines
  const char* note = "";  // beside the column in the schema; for blobs the type of their array
};
struct LayerColumn {
  const char* note = "";
  int lowest = 0;  // -1 if rows without a layer are allowed
};
// Names of the first `count` enumerators.
template <class Enum>
struct Names {
  const char* (*name_of)(Enum);
  int count;
};
template <class Enum>  // clang before 17 does not deduce it for aggregates
Names(const char* (*)(Enum), int) -> Names<Enum>;

// Returns the enumerator called `name`; nullopt if there is none.
template <class Enum>
std::optional<Enum> find_named(std::string_view name, Names<Enum> names) {
  for (int i = 0; i < names.count; ++i)
    if (name == names.name_of(static_cast<Enum>(i))) return static_cast<Enum>(i);
  return std::nullopt;
}

template <class Row, class Frame>
concept RowOf = std::same_as<std::remove_const_t<Row>, Frame>;

// `volume` is a table of its own in recordings, not a column.
void describe(RowOf<RouterFrame> auto& router, auto& visit) {
  visit.layer(router.layer, LayerColumn{"index among all layers"});
  visit.figures(router, kRouterFigures);
  visit.by_expert(router.tokens_per_expert,
                  Column{"tokens_per_expert", "uint16 [E], or uint32 [E] if a count does not fit"});
  visit.by_expert(router.expert_bias, Column{"expert_bias", "float32 [E], after the step's update"});
  visit.by_expert(router.score_mass, Column{"score_mass", "float32 [E], sums to 1"});
  visit.by_expert(router.gate_mass, Column{"gate_mass", "float32 [E], sums to 1"});
  visit.bins(router.score_chosen,
             Column{"score_chosen",
                    "uint32 [40], or [48] if scores have no upper limit: scores of chosen experts, bin b from "
                    "2^((b - 40) / 2), the first from 0"});
  visit.bins(router.score_rejected, Column{"score_rejected", "the same for scores of experts that were not chosen"});
  visit.bins(router.margin_tokens, Column{"margin_tokens", "uint32 [40] or [48]: tokens by margin"});
}

// Also calls visitor.gemm(quant.gemm), the class of the weight and its name, and visitor.scales(quant.e8m0_blocks).
void describe(RowOf<QuantFrame> auto& quant, auto& visit) {
  visit.layer(quant.layer, LayerColumn{"-1: not part of a layer", -1});
  visit.gemm(quant.gemm);
  visit.name(quant.operand, Column{"operand", "'x', 'W', 'dY'"}, Names{operand_name, 3});
  visit.name(quant.direction, Column{"direction", "'forward', 'dgrad', 'wgrad'"}, Names{direction_name, 3});
  visit.text(quant.format, Column{"format", "'mxfp8_e4m3_rceil', 'nvfp4', 'bf16'"});
  visit.figures(quant, kQuantFigures);
  visit.scales(quant.e8m0_blocks);
}

// A row does not name its reference: the list that holds it does (TelemetryFrame::flips, rounding_flips).
void describe(RowOf<FlipFrame> auto& flip, auto& visit) {
  visit.layer(flip.layer, LayerColumn{});
  visit.figures(flip, kFlipFigures);
  visit.bins(
      flip.margin_tokens,
      Column{"margin_tokens", "uint32 [40]: tokens by its margin, bin b from 2^((b - 40) / 2), the first from 0"});
  visit.bins(flip.margin_flipped, Column{"margin_flipped", "uint32 [40]: flipped tokens by margin"});
}

void describe(RowOf<GradientFrame> auto& gradient, auto& visit) {
  visit.layer(gradient.layer, LayerColumn{"-1: not part of a layer", -1});
  visit.name(gradient.group,
             Column{"tensors", "'attention', 'router gate', 'routed experts', 'FFN', 'embedding', 'head', 'all'"},
             Names{gradient_group_name, kNumGradientGroups});
  visit.figures(gradient, kGradientFigures);
}

void describe(RowOf<RouterRoundingFrame> auto& rounding, auto& visit) {
  visit.layer(rounding.layer, LayerColumn{});
  visit.name(
      rounding.rounding,
      Column{"rounding", "what alone is in BF16: 'operands', 'gate output', 'bias', 'counts'; 'none': for comparison"},
      Names{router_rounding_name, kNumRouterRoundings});
  visit.figures(rounding, kRouterRoundingFigures);
  visit.bins(rounding.margin_tokens, Column{"margin_tokens", "uint32 [40]: tokens by margin without rounding"});
  visit.bins(rounding.margin_flipped,
             Column{"margin_flipped", "uint32 [40]: tokens with other experts, by the same margin"});
}

// Range of an E8M0 histogram from the first to the last byte that occurs; count 0 if all counts are zero.
struct ByteRange {
  int first = 0;
  int count = 0;
};
inline ByteRange occupied_bytes(const std::array<std::uint32_t, 256>& e8m0_blocks) {
  int first = 0;
  int last = 255;
  while (first < 256 && e8m0_blocks[first] == 0) ++first;
  if (first == 256) return {};
  while (e8m0_blocks[last] == 0) --last;
  return {first, last - first + 1};
}

}  // namespace moescope
