#include "core/checkpoints/weight_reader.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/files/text/text_escape.h"
#include "core/files/unreadable.h"

namespace moescope {

namespace {

bool is_codes(DType dtype) {
  return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 || dtype == DType::f4;
}

}  // namespace

WeightReader::WeightReader(const TensorFile& file, const StatedQuantization& quantization, SharedFailure failure,
                           Arithmetic arithmetic)
    : file_(file), quantization_(quantization), failure_(std::move(failure)), arithmetic_(arithmetic) {}

void WeightReader::fail(const TensorView& tensor, const std::string& what) const {
  refuse(file_.file_of(tensor), "tensor '" + printable(tensor.name) + "' " + what);
}

void WeightReader::check_format(const TensorView& tensor) {
  if (tensor.holds != TensorView::Holds::values) fail(tensor, tensor.note);
  if (!tensor.floating()) fail(tensor, "holds " + tensor.type_text() + "; allowed: floating-point numbers");
  if (tensor.scales) {
    codes_ = true;
    if (const std::string problem = quantization_.problem(tensor); !problem.empty()) fail(tensor, problem);
  } else if (is_codes(tensor.dtype)) {
    bare_codes_ = true;
    if (quantization_.exists)
      fail(tensor, "holds " + tensor.type_text() +
                       " codes, but the file has no scales for them; config.json says that "
                       "weights are quantized");
  }
}

const TensorView& WeightReader::find(const std::string& name, const std::vector<Index>& shape) {
  const TensorView& tensor = file_.at(name);
  const std::vector<std::size_t> required_shape(shape.begin(), shape.end());
  if (tensor.shape != required_shape)
    fail(tensor, "is " + shape_text(tensor.shape) + "; config.json requires " + shape_text(required_shape));
  check_format(tensor);
  read_.insert(&tensor);
  parameters_ += tensor.elements();
  bytes_ += tensor.bytes.size();
  return tensor;
}

// True for tensors that do not affect a forward pass in FP32: frequencies of RoPE, which follow from config.json,
// scales of activations and of the cache of keys and values, and layers for the prediction of several tokens.
bool WeightReader::has_no_effect(const std::string& name) const {
  constexpr std::string_view kEnds[] = {".rotary_emb.inv_freq",
                                        ".input_scale",
                                        ".output_scale",
                                        ".input_global_scale",
                                        ".q_scale",
                                        ".k_scale",
                                        ".v_scale",
                                        ".prob_scale"};
  if (std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); })) return true;
  if (name.starts_with("mtp.")) return true;
  constexpr std::string_view kLayers = "model.layers.";
  const std::size_t end = name.find('.', kLayers.size());
  if (!name.starts_with(kLayers) || end == std::string::npos) return false;
  const std::string layer = name.substr(0, end);
  return has(layer + ".eh_proj.weight") && !read_.contains(file_.find(layer + ".input_layernorm.weight"));
}

void WeightReader::require_all_read() const {
  const TensorView* first = nullptr;
  std::size_t unread_count = 0;
  for (const TensorView& tensor : file_.tensors()) {
    if (read_.contains(&tensor) || tensor.holds == TensorView::Holds::scales || has_no_effect(tensor.name)) continue;
    if (first)
      ++unread_count;
    else
      first = &tensor;
  }
  if (!first) return;
  fail(*first, (unread_count == 0 ? std::string("is")
                                  : "and " + std::to_string(unread_count) +
                                        (unread_count == 1 ? " other tensor are" : " other tensors are")) +
                   " used by no layer that config.json describes: is a key of config.json wrong or missing?");
}

std::vector<float> WeightReader::vector(const std::string& name, Index size) {
  return find(name, {size}).floats();
}

StoredMatrix WeightReader::matrix(const std::string& name, Index outputs, Index inputs) {
  return {find(name, {outputs, inputs}), 0, false, failure_};
}

std::vector<StoredLinear> WeightReader::stack(const std::string& name, Index count, Index outputs, Index inputs,
                                              bool transposed) {
  const TensorView& tensor =
      find(name, transposed ? std::vector<Index>{count, inputs, outputs} : std::vector<Index>{count, outputs, inputs});
  std::vector<StoredLinear> matrices;
  for (Index i = 0; i < count; ++i)
    matrices.emplace_back(StoredMatrix(tensor, i, transposed, failure_), arithmetic_, rounding_);
  return matrices;
}

std::vector<std::vector<float>> WeightReader::stacked_vectors(const std::string& name, Index count, Index size) {
  const TensorView& tensor = find(name, {count, size});
  std::vector<std::vector<float>> vectors;
  for (Index i = 0; i < count; ++i)
    vectors.push_back(tensor.floats(static_cast<std::size_t>(i * size), static_cast<std::size_t>(size)));
  return vectors;
}

StoredLinear WeightReader::linear(const std::string& name, Index outputs, Index inputs, bool bias, const char* key) {
  StoredLinear linear(matrix(name + ".weight", outputs, inputs), arithmetic_, rounding_);
  if (bias) linear.bias = vector(name + ".bias", outputs);
  if (const TensorView* stored = file_.find(name + ".bias"); stored && !bias)
    fail(*stored, std::string("exists, but by '") + key + "' of config.json there is none");
  return linear;
}

}  // namespace moescope
