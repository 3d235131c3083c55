#include "core/model/layers/sampled_blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "core/files/text/json_text.h"
#include "core/files/text/text_escape.h"
#include "core/numerics/number_format.h"
#include "core/numerics/quantize.h"

namespace moescope {
namespace {

constexpr std::size_t kMaxRowValues = 4096;

std::vector<float> values_in(const nlohmann::json& sample) {
  const auto bytes = from_base64url(sample.at("values").get<std::string>());
  const bool is_bf16 = sample.at("dtype").get<std::string>() == "bf16";
  const std::size_t width = is_bf16 ? sizeof(Bf16) : sizeof(float);
  if (!bytes || bytes->size() % width != 0) throw std::runtime_error("values: no base64url of whole values");
  std::vector<float> values(bytes->size() / width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes->data() + i * width, width);
    values[i] = std::bit_cast<float>(is_bf16 ? bits << 16 : bits);
  }
  return values;
}

QuantSums sums_of(const CapturedOperand& operand) {
  QuantSums sums;
  std::vector<float> decoded(operand.values.size());
  quantize_operand({{operand.values.data(), static_cast<Index>(operand.rows), static_cast<Index>(operand.cols)},
                    operand.format,
                    operand.axis,
                    {},
                    &sums},
                   {decoded.data(), static_cast<Index>(operand.rows), static_cast<Index>(operand.cols)});
  return sums;
}

SampledBlocks blocks_in(const Marker& marker, const RunInfo& run, const OperandPlace& place) {
  const nlohmann::json sample = parse_json(marker.text);
  CapturedOperand operand;
  operand.place = place;
  operand.step = marker.step;
  operand.run = run.run;
  operand.run_name = run.name;
  operand.cols = sample.at("cols").get<std::size_t>();
  operand.values = values_in(sample);
  if (operand.cols == 0 || operand.cols > kMaxRowValues || operand.values.empty() ||
      operand.values.size() % operand.cols != 0)
    throw std::runtime_error("cols: no width of the values");
  operand.rows = operand.values.size() / operand.cols;
  operand.format = quant_format(sample.at("format").get<std::string>()).operand.value_or(OperandFormat{});
  operand.sums = sums_of(operand);
  SampledBlocks blocks;
  blocks.is_stored = sample.value("stored", false);
  if (const auto formats = sample.find("what_if"); formats != sample.end() && formats->is_object())
    for (const auto& [name, sqnr] : formats->items())
      if (sqnr.is_number()) blocks.other_sqnr_db.emplace_back(name, sqnr.get<double>());
  blocks.operand = std::make_shared<const CapturedOperand>(std::move(operand));
  return blocks;
}

}  // namespace

std::optional<SampledBlocks> sampled_blocks(std::span<const Marker> markers, const RunInfo& run,
                                            const OperandPlace& place, std::int64_t step) {
  const std::string key = place_text(place);
  const auto found = std::ranges::find_if(markers, [&](const Marker& marker) {
    return marker.step == step && marker.kind == kOperandsMarker && marker.key == key;
  });
  if (found == markers.end()) return std::nullopt;
  try {
    return blocks_in(*found, run, place);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace moescope
