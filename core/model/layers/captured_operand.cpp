#include "core/model/layers/captured_operand.h"

#include <memory>
#include <span>
#include <utility>

#include "core/files/tensors/safetensors.h"
#include "core/numerics/number_format.h"
#include "core/numerics/quantize.h"

namespace moescope {
namespace {

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

QuantSums quantizer_sums(const CapturedOperand& captured) {
  QuantSums total;
  for (const auto& [expert, sums] : sums_of_calls(captured)) total.add(sums);
  return total;
}

std::vector<QuantSums> expert_sums(const CapturedOperand& captured) {
  std::vector<QuantSums> experts(captured.expert_rows.empty() ? 0 : captured.expert_rows.size() - 1);
  if (experts.empty()) return experts;
  for (const auto& [expert, sums] : sums_of_calls(captured)) experts[expert].add(sums);
  return experts;
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
