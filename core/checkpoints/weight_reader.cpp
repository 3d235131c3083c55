#include "core/checkpoints/weight_reader.h"

#include <stdexcept>
#include <utility>

#include "core/io/text_escape.h"

namespace moescope {

WeightReader::WeightReader(const TensorFile& file, LostPages lost, Arithmetic arithmetic)
    : file_(file), lost_(std::move(lost)), arithmetic_(arithmetic) {}

void WeightReader::fail(const TensorView& tensor, const std::string& what) const {
  throw std::runtime_error(file_.file_of(tensor) + ": tensor '" + printable(tensor.name) + "' " + what);
}

const TensorView& WeightReader::find(const std::string& name, const std::vector<Index>& shape) {
  const TensorView& tensor = file_.at(name);
  const std::vector<std::size_t> asked(shape.begin(), shape.end());
  if (tensor.shape != asked)
    fail(tensor, "is " + shape_text(tensor.shape) + "; config.json requires " + shape_text(asked));
  if (tensor.holds != TensorView::Holds::values) fail(tensor, tensor.note);
  if (!tensor.floating()) fail(tensor, "holds " + tensor.type_text() + "; allowed: floating-point numbers");
  parameters_ += tensor.elements();
  bytes_ += tensor.bytes.size();
  return tensor;
}

std::vector<float> WeightReader::vector(const std::string& name, Index size) {
  return find(name, {size}).floats();
}

StoredMatrix WeightReader::matrix(const std::string& name, Index outputs, Index inputs) {
  return {find(name, {outputs, inputs}), 0, false, lost_};
}

std::vector<StoredLinear> WeightReader::stack(const std::string& name, Index count, Index outputs, Index inputs,
                                              bool transposed) {
  const TensorView& tensor =
      find(name, transposed ? std::vector<Index>{count, inputs, outputs} : std::vector<Index>{count, outputs, inputs});
  std::vector<StoredLinear> matrices;
  for (Index i = 0; i < count; ++i)
    matrices.emplace_back(StoredMatrix(tensor, i, transposed, lost_), arithmetic_, rounding_);
  return matrices;
}

std::vector<std::vector<float>> WeightReader::stacked_vectors(const std::string& name, Index count, Index size) {
  const TensorView& tensor = find(name, {count, size});
  std::vector<std::vector<float>> vectors;
  for (Index i = 0; i < count; ++i)
    vectors.push_back(tensor.floats(static_cast<std::size_t>(i * size), static_cast<std::size_t>(size)));
  return vectors;
}

StoredLinear WeightReader::linear(const std::string& name, Index outputs, Index inputs, std::optional<bool> bias,
                                  const char* key) {
  StoredLinear linear(matrix(name + ".weight", outputs, inputs), arithmetic_, rounding_);
  const TensorView* stored = file_.find(name + ".bias");
  if (stored && bias == false)
    fail(*stored, std::string("exists, but '") + key + "' of config.json says that there is none");
  if (bias.value_or(stored != nullptr)) linear.bias = vector(name + ".bias", outputs);
  return linear;
}

}  // namespace moescope
