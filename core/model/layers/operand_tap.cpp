#include "core/model/layers/operand_tap.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "core/files/tensors/safetensors.h"
#include "core/numerics/number_format.h"
#include "core/numerics/quantize.h"

namespace moescope {
namespace {

std::pair<int, std::uint32_t> order_of(const QuantizerCall& call) {
  return {call.expert, call.key.first_row};
}

// True if the statistics of a call are added to those of the previous call: for an expert's weight gradient, whose
// blocks continue from call to call.
bool adds_to_previous_call(const CapturedOperand& captured, std::size_t call) {
  return call > 0 && captured.place.direction == Direction::wgrad &&
         captured.calls[call].expert == captured.calls[call - 1].expert;
}

void quantize_call(const CapturedOperand& captured, const OperandFormat& format, const QuantizerCall& call, float* out,
                   QuantSums* sums) {
  const Matrix<const float> in(captured.values.data() + call.first_row * captured.cols, call.rows, captured.cols);
  quantize_operand({in, format, captured.axis, call.key, sums}, {out, in.rows, in.cols},
                   call.expert < 0 ? Threads::all : Threads::calling);
}

// Returns the expert and the sums of each stretch of calls that are added together, in the order of calls.
std::vector<std::pair<int, QuantSums>> sums_of_calls(const CapturedOperand& captured) {
  const auto out = std::make_unique_for_overwrite<float[]>(captured.values.size());
  std::vector<std::pair<int, QuantSums>> sums;
  for (std::size_t i = 0; i < captured.calls.size(); ++i) {
    if (!adds_to_previous_call(captured, i)) sums.push_back({captured.calls[i].expert, {}});
    quantize_call(captured, captured.format, captured.calls[i], out.get(), &sums.back().second);
  }
  return sums;
}

}  // namespace

OperandTap::OperandTap(const OperandPlace& place)
    : place_(place), source_(place.operand == OperandRole::x ? source_of_x(place.gemm) : place.gemm) {}

bool OperandTap::is_of(int layer, GemmClass gemm_class) const {
  return gemm_class == place_.gemm_class() && (layer == place_.layer || source_ == Gemm::output);
}

int OperandTap::part_of(int layer, Gemm first, int stacked) const {
  if (!is_of(layer, gemm_class_of(first))) return -1;
  const int part = static_cast<int>(source_) - static_cast<int>(first);
  return part >= 0 && part < stacked ? part : -1;
}

template <class T>
void OperandTap::take(const Operand<T>& operand, int expert) {
  const Matrix<const T>& m = operand.matrix;
  Piece piece{{expert, 0, static_cast<std::size_t>(m.rows), operand.key}, {}};
  if (m.rows == 0) return;
  const std::lock_guard lock(mutex_);
  const auto has_same_order = [&](const Piece& other) { return order_of(other.call) == order_of(piece.call); };
  if (std::any_of(pieces_.begin(), pieces_.end(), has_same_order)) return;
  piece.values.resize(m.size());
  for (Index r = 0; r < m.rows; ++r) std::copy_n(m.row(r), m.cols, piece.values.data() + r * m.cols);
  pieces_.push_back(std::move(piece));
  format_ = operand.format;
  axis_ = operand.axis;
  cols_ = m.cols;
}

std::optional<CapturedOperand> OperandTap::finish(int n_experts) {
  if (pieces_.empty()) return std::nullopt;
  std::sort(pieces_.begin(), pieces_.end(),
            [](const Piece& a, const Piece& b) { return order_of(a.call) < order_of(b.call); });
  CapturedOperand captured;
  captured.place = place_;
  captured.format = format_;
  captured.axis = axis_;
  captured.cols = cols_;
  std::vector<std::size_t> rows_of_expert(n_experts);
  for (Piece& piece : pieces_) {
    piece.call.first_row = captured.rows;
    captured.rows += piece.call.rows;
    if (piece.call.expert >= 0) rows_of_expert[piece.call.expert] += piece.call.rows;
    captured.values.insert(captured.values.end(), piece.values.begin(), piece.values.end());
    captured.calls.push_back(piece.call);
    piece.values = {};
  }
  if (place_.gemm_class() == GemmClass::experts) {
    captured.expert_rows.push_back(0);
    for (const std::size_t rows : rows_of_expert) captured.expert_rows.push_back(captured.expert_rows.back() + rows);
  }
  pieces_.clear();
  captured.sums = quantizer_sums(captured);
  return captured;
}

template void OperandTap::take<float>(const Operand<float>&, int);
template void OperandTap::take<double>(const Operand<double>&, int);

QuantSums quantizer_sums(const CapturedOperand& captured) {
  QuantSums total;
  for (const auto& [expert, sums] : sums_of_calls(captured)) total.add(sums);
  return total;
}

CapturedOperand rotated(CapturedOperand captured) {
  OperandFormat rotation;
  rotation.hadamard = std::exchange(captured.format.hadamard, 0);
  if (rotation.hadamard == 0) return captured;
  std::vector<float> values(captured.values.size());
  for (const QuantizerCall& call : captured.calls)
    quantize_call(captured, rotation, call, values.data() + call.first_row * captured.cols, nullptr);
  captured.values = std::move(values);
  return captured;
}

void save_captured(const CapturedOperand& captured, const std::string& path) {
  SafetensorsWriter writer;
  writer.add(place_text(captured.place), DType::f32, {captured.rows, captured.cols},
             std::as_bytes(std::span(captured.values)));
  if (!captured.expert_rows.empty()) {
    const std::vector<std::int64_t> rows(captured.expert_rows.begin(), captured.expert_rows.end());
    writer.add("expert_rows", DType::i64, {rows.size()}, std::as_bytes(std::span(rows)));
  }
  const OperandPlace& place = captured.place;
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, std::string>>{
           {"run", captured.run_name},
           {"step", std::to_string(captured.step)},
           {"layer", std::to_string(place.layer)},
           {"gemm_class", gemm_class_name(place.gemm_class())},
           {"gemm", gemm_name(place.gemm)},
           {"operand", operand_name(place.operand)},
           {"direction", direction_name(place.direction)},
           {"quantized_to", format_name(captured.format)},
           {"blocks", captured.axis == BlockAxis::row ? "along rows" : "down columns"}})
    writer.set_metadata(key, value);
  writer.write(path);
}

}  // namespace moescope
