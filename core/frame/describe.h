// The tables of a frame and their columns, declared once. Recordings, JSON lines and packed frames are written and read
// by visitors of these descriptions, so that they all contain a new column.
//
// describe(row, visitor) calls, in the order of the columns of a recording,
//   visitor.layer(int&, LayerColumn)            among all layers
//   visitor.figures(row, table)                 the floats of a table of figures.h
//   visitor.size(int&, Size, Column)            a size of the arrays after it
//   visitor.array(vector<T>&, Column, Extent)   floats, or counts; uint16: indices of experts
//   visitor.bins(vector<uint32>&, Column)       [kHalfOctaves], [kWideHalfOctaves], or empty
//   visitor.bins(HalfOctaves&, Column)
//   visitor.name(Enum&, Column, Names)          an enumerator by its name
//   visitor.text(string&, Column)
//   visitor.nested(row or vector of rows, key)  rows of another table; in JSON lines and packed frames part of this row
// and the calls that the comments of single describe() functions name. `row` may be const.
#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "core/frame/figures.h"
#include "core/frame/specialisation.h"
#include "core/numerics/index.h"
#include "core/numerics/names.h"

namespace moescope {

struct Column {
  const char* name = nullptr;  // column in recordings
  const char* note = "";       // beside the column in the schema; for blobs the type of their array
  const char* key = name;      // key in JSON lines
  bool left_out = false;       // JSON lines do not have the key
  bool last_key = false;       // in JSON lines the key follows those of all other columns
};
struct LayerColumn {
  const char* note = "";
  int lowest = 0;             // -1 if rows without a layer are allowed
  bool null_without = false;  // JSON lines have null for -1
};

// What an extent of an array counts; tokens are the bytes of a text.
enum class Size { one, experts, domains, byte_values, bias_shares, ranks, ranks_per_node, nodes, tokens, top_k };
inline constexpr int kNumSizes = 10;

// Sizes of the arrays of a row; 0 if unknown.
class Sizes {
 public:
  Sizes() = default;
  explicit Sizes(const RunInfo& info) {
    set(Size::experts, info.n_experts);
    set(Size::domains, to_int(info.domains.size()));
  }
  void set(Size size, int value) { values_[static_cast<std::size_t>(size)] = value; }
  std::size_t operator[](Size size) const {
    if (size != Size::nodes) return values_[static_cast<std::size_t>(size)];
    const std::size_t per_node = operator[](Size::ranks_per_node);
    return per_node == 0 ? 0 : (operator[](Size::ranks) + per_node - 1) / per_node;
  }

 private:
  std::array<std::size_t, kNumSizes> values_ = {1, 0, 0, 256, kBiasShares};
};

enum class Presence : std::uint8_t {
  optional,  // the array may be empty
  filled,    // a JSON line may lack the array, whose values are then kNoValue or 0
  required
};
// Bytes of a count in recordings.
enum class CountWidth : std::uint8_t {
  full,    // uint32
  narrow,  // uint16, or uint32 if a count does not fit
  by_row   // as the row's visitor.count_bytes() says
};
// Shape [rows, columns] of an array, and how it is stored.
struct Extent {
  Size rows;
  Size columns = Size::one;
  Presence presence = Presence::optional;
  CountWidth count_width = CountWidth::full;
  bool is_symmetric = false;
};
inline constexpr Extent kPerExpert{Size::experts}, kPerToken{Size::tokens, Size::one, Presence::filled};

template <class Row, class Frame>
concept RowOf = std::same_as<std::remove_const_t<Row>, Frame>;

// The table of `Row` in recordings. Its columns are id, run and step, `before` if it has a name, those of describe(),
// and `after` if it has a name.
struct Table {
  const char* name;
  const char* note;
  const char* id_note = "(frame id << 16) + position in the frame";
  Column before = {};  // INTEGER
  Column after = {};   // TEXT
};
template <class Row>
inline constexpr Table kTable = {};

template <>
inline constexpr Table kTable<RouterFrame> = {"router",
                                              "router of one MoE layer at a step; formulas: core/frame/router_stats.h"};
void describe(RowOf<RouterFrame> auto& router, auto& visit) {
  visit.layer(router.layer,
              LayerColumn{"index among all layers", -1});  // -1: a log that has only the mean of all layers
  visit.figures(router, kRouterFigures);
  visit.array(router.tokens_per_expert,
              Column{"tokens_per_expert", "uint16 [E], or uint32 [E] if a count does not fit"},
              Extent{.rows = Size::experts, .count_width = CountWidth::narrow});
  visit.array(router.expert_bias, Column{"expert_bias", "float32 [E], after the step's update"}, kPerExpert);
  visit.array(router.score_mass, Column{"score_mass", "float32 [E], sums to 1"}, kPerExpert);
  visit.array(router.gate_mass, Column{"gate_mass", "float32 [E], sums to 1"}, kPerExpert);
  visit.bins(router.score_chosen,
             Column{"score_chosen",
                    "uint32 [40], or [48] if scores have no upper limit: scores of chosen experts, bin b from "
                    "2^((b - 40) / 2), the first from 0"});
  visit.bins(router.score_rejected, Column{"score_rejected", "the same for scores of experts that were not chosen"});
  visit.bins(router.margin_tokens, Column{"margin_tokens", "uint32 [40] or [48]: tokens by margin"});
  visit.nested(router.volume, "volume");
}

template <>
inline constexpr Table kTable<VolumeFrame> = {
    .name = "volume",
    .note = "token copies between ranks in one layer's dispatch; combine is the transpose",
    .id_note = "id of the router row",
    .before = {"layer"}};
// Also calls visitor.count_bytes(Column, arrays...), the bytes of each count of these arrays.
void describe(RowOf<VolumeFrame> auto& volume, auto& visit) {
  visit.size(volume.ranks, Size::ranks, Column{"ranks", "R"});
  visit.size(volume.ranks_per_node, Size::ranks_per_node, Column{"ranks_per_node"});
  visit.count_bytes(Column{"count_bytes", "1, 2 or 4: the blobs are uint8, uint16 or uint32"}, volume.copies_RR,
                    volume.distinct_RR, volume.nodes_RN);
  visit.array(volume.copies_RR,
              Column{"copies", "[R, R] source, destination: standard all-to-all, a copy per chosen expert"},
              Extent{Size::ranks, Size::ranks, Presence::required, CountWidth::by_row});
  // The counts of the standard all-to-all suffice for its panel; the recording needs all three arrays.
  visit.array(volume.distinct_RR, Column{"distinct_ranks", "[R, R] a copy per destination rank", "distinct"},
              Extent{Size::ranks, Size::ranks, Presence::filled, CountWidth::by_row});
  visit.array(volume.nodes_RN,
              Column{"distinct_nodes", "[R, N] a copy per destination node, own node counted", "nodes"},
              Extent{Size::ranks, Size::nodes, Presence::filled, CountWidth::by_row});
}

template <>
inline constexpr Table kTable<QuantFrame> = {
    "quant", "one quantized operand of one GEMM, all routed experts of the layer together"};
// Also calls visitor.gemm(quant.gemm), the class of the weight and its name, and visitor.scales(quant.e8m0_blocks).
void describe(RowOf<QuantFrame> auto& quant, auto& visit) {
  visit.layer(quant.layer, LayerColumn{"-1: not part of a layer", -1});
  visit.gemm(quant.gemm);
  visit.name(quant.operand, Column{"operand", "'x', 'W', 'dY'"}, operand_name);
  visit.name(quant.direction, Column{"direction", "'forward', 'dgrad', 'wgrad'"}, direction_name);
  visit.text(quant.format.name, Column{"format", "'mxfp8_e4m3_rceil', 'nvfp4', 'bf16'"});
  if constexpr (std::is_assignable_v<decltype((quant.format)), QuantFormat>)
    quant.format = quant_format(quant.format.name);
  visit.figures(quant, kQuantFigures);
  visit.scales(quant.e8m0_blocks);
}

template <>
inline constexpr Table kTable<FlipFrame> = {
    .name = "flip",
    .note = "one MoE layer's tokens that chose another set of experts than in `reference`",
    .after = {"reference", "'run 0', or 'fp32': a pass in FP32 with the run's own weights"}};
// A row does not name its reference: the list that holds it does (TelemetryFrame::flips, rounding_flips).
void describe(RowOf<FlipFrame> auto& flip, auto& visit) {
  visit.layer(flip.layer, LayerColumn{});
  visit.figures(flip, kFlipFigures);
  visit.bins(
      flip.margin_tokens,
      Column{"margin_tokens", "uint32 [40]: tokens by its margin, bin b from 2^((b - 40) / 2), the first from 0"});
  visit.bins(flip.margin_flipped, Column{"margin_flipped", "uint32 [40]: flipped tokens by margin"});
}

template <>
inline constexpr Table kTable<GradientFrame> = {
    "gradient", "a group of gradients against those of an FP32 pass on the same weights and batch"};
void describe(RowOf<GradientFrame> auto& gradient, auto& visit) {
  visit.layer(gradient.layer, LayerColumn{"-1: not part of a layer", -1, true});
  visit.name(gradient.group,
             Column{"tensors", "'attention', 'router gate', 'routed experts', 'FFN', 'embedding', 'head', 'all'"},
             gradient_group_name);
  visit.figures(gradient, kGradientFigures);
}

template <>
inline constexpr Table kTable<RouterRoundingFrame> = {"router_rounding",
                                                      "one rounding to BF16 alone in the router of one MoE layer"};
void describe(RowOf<RouterRoundingFrame> auto& rounding, auto& visit) {
  visit.layer(rounding.layer, LayerColumn{});
  visit.name(
      rounding.rounding,
      Column{"rounding", "what alone is in BF16: 'operands', 'gate output', 'bias', 'counts'; 'none': for comparison"},
      router_rounding_name);
  visit.figures(rounding, kRouterRoundingFigures);
  visit.bins(rounding.margin_tokens, Column{"margin_tokens", "uint32 [40]: tokens by margin without rounding"});
  visit.bins(rounding.margin_flipped,
             Column{"margin_flipped", "uint32 [40]: tokens with other experts, by the same margin"});
}

template <>
inline constexpr Table kTable<SpecialisationFrame> = {"specialisation",
                                                      "tokens of one MoE layer by expert, since the row before"};
// Also calls visitor.experts(special) for special.experts, which files do not have: it is the E of the run.
void describe(RowOf<SpecialisationFrame> auto& special, auto& visit) {
  visit.layer(special.layer, LayerColumn{});
  visit.experts(special);
  visit.array(special.domain_DE,
              Column{"domain_experts", "uint32 [D, E] slots by domain (run.domains) and expert", "domain"},
              Extent{Size::domains, Size::experts});
  visit.array(special.together_EE,
              Column{.name = "together",
                     .note = "uint32 [E, E] tokens that chose both; on the diagonal: tokens of the expert; or empty",
                     .left_out = special.together_EE.empty()},
              Extent{.rows = Size::experts, .columns = Size::experts, .is_symmetric = true});
  visit.array(special.byte_256E,
              Column{"byte_experts", "uint32 [256, E] slots by the token's byte and expert; or empty", "byte"},
              Extent{Size::byte_values, Size::experts});
  visit.array(special.weight_norm_E,
              Column{"weight_norm", "float32 [E] norm of the expert's weights; empty: not known"}, kPerExpert);
  visit.array(special.weight_sqnr_E,
              Column{"weight_sqnr", "float32 [E] dB, of the weights in the run's format; NaN: not quantized"},
              kPerExpert);
  visit.array(special.bias_for_share_EQ,
              Column{.name = "bias_for_share",
                     .note = "float32 [E, 33] quantiles over the step's tokens of cutoff - score, at the\n"
                             "shares of core/frame/specialisation.h; or empty",
                     .last_key = true},
              Extent{Size::experts, Size::bias_shares});
  visit.array(special.gradient_norm_E,
              Column{"gradient_norm", "float32 [E] norm of the gradient of the expert's weights in the step; or empty"},
              kPerExpert);
  visit.array(special.update_norm_E,
              Column{"update_norm", "float32 [E] norm of the change of the expert's weights; or empty"}, kPerExpert);
}

template <>
inline constexpr Table kTable<TokenFrame> = {
    "text", "a text of T bytes and how it was routed; the bytes of a token have its routing"};
// Also calls visitor.bytes(string&, Column), the size of which is Size::tokens, and visitor.position(int&, Column), an
// index from 0 to T.
void describe(RowOf<TokenFrame> auto& text, auto& visit) {
  visit.name(text.kind, Column{"kind", "'probe', 'sample', 'batch'"}, text_kind_name);
  visit.bytes(text.text, Column{"text", "[T]"});
  visit.position(text.prompt, Column{.name = "prompt",
                                     .note = "length of a sample's prompt, bytes",
                                     .left_out = text.kind != TextKind::sample});
  visit.text(text.domain,
             Column{.name = "domain", .note = "domain of a passage of the data", .left_out = text.domain.empty()});
  visit.array(text.loss_T, Column{"loss", "float32 [T], nats; NaN: no prediction"}, kPerToken);
  visit.nested(text.layers, "layers");
}

template <>
inline constexpr Table kTable<TokenLayer> = {
    .name = "text_layer",
    .note = "one MoE layer's routing of a text",
    .id_note = "(frame id << 16) + position among the layers of all texts of the frame",
    .before = {"position", "position of the text in its frame"}};
void describe(RowOf<TokenLayer> auto& layer, auto& visit) {
  visit.layer(layer.layer, LayerColumn{});
  visit.size(layer.top_k, Size::top_k, Column{.name = "top_k", .note = "K", .left_out = true});
  visit.array(layer.experts_TK, Column{"experts", "uint16 [T, K], best biased score first"},
              Extent{Size::tokens, Size::top_k, Presence::required});
  visit.array(layer.scores_TK, Column{"scores", "float32 [T, K], before bias"},
              Extent{Size::tokens, Size::top_k, Presence::filled});
  visit.array(layer.margin_T, Column{"margin", "float32 [T]"}, kPerToken);
}

template <>
inline constexpr Table kTable<WireFrame> = {.name = "wire",
                                            .note = "bytes that the all-to-alls of a step moved between processes",
                                            .id_note = "frame id << 16"};
// Also calls visitor.flag(bool&, Column).
void describe(RowOf<WireFrame> auto& wire, auto& visit) {
  visit.size(wire.ranks, Size::ranks, Column{"ranks", "R processes"});
  visit.flag(wire.over_nodes, Column{"over_nodes", "1: hierarchical, by way of nodes; 0: flat"});
  visit.array(wire.sent_RR, Column{"sent_bytes", "uint64 [R, R] source, destination, all layers, forward and backward"},
              Extent{Size::ranks, Size::ranks, Presence::required});
  visit.array(wire.all_to_all_ms_R, Column{"all_to_all_ms", "float32 [R], waiting included"},
              Extent{.rows = Size::ranks, .presence = Presence::filled});
}

// The tables whose rows belong to rows of `frame`, in the order of the schema.
using FrameRowTypes = std::tuple<RouterFrame, VolumeFrame, QuantFrame, FlipFrame, GradientFrame, RouterRoundingFrame,
                                 SpecialisationFrame, TokenFrame, TokenLayer, WireFrame>;
inline constexpr std::size_t kNumFrameTables = std::tuple_size_v<FrameRowTypes>;
inline constexpr auto kFrameTables = []<class... Rows>(std::tuple<Rows...>*) {
  return std::array{kTable<Rows>.name...};
}(static_cast<FrameRowTypes*>(nullptr));
template <class Row>
inline constexpr std::size_t kTableIndex = []<class... Rows>(std::tuple<Rows...>*) {
  const bool is_row[] = {std::is_same_v<Row, Rows>...};
  std::size_t index = 0;
  while (!is_row[index]) ++index;
  return index;
}(static_cast<FrameRowTypes*>(nullptr));

// Calls visit(key in JSON lines, rows) for the members of a frame that hold rows, in the order of JSON lines. All of
// them are vectors except WireFrame.
void for_each_rows(RowOf<TelemetryFrame> auto& frame, auto&& visit) {
  visit("routers", frame.routers);
  visit("quants", frame.quants);
  visit("flips", frame.flips);
  visit("gradients", frame.gradients);
  visit("specialisation", frame.specialisation);
  visit("texts", frame.texts);
  visit("wire", frame.wire);
  visit("rounding_flips", frame.rounding_flips);
  visit("router_roundings", frame.router_roundings);
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
