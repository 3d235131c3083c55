// golden_muon DIR: checks the Muon optimizer against reference data made by running TorchTitan's.
//
// DIR holds muon.safetensors; tests/golden/muon/README.md describes it and how exact each comparison is. Exits with 0
// if all agree, 1 if something differs, 2 if there is nothing to compare or a file cannot be read.
#include <cmath>
#include <stdexcept>
#include <vector>

#include "core/files/tensors/safetensors.h"
#include "core/model/optimizer.h"
#include "core/numerics/index.h"
#include "tests/golden/checked_folder.h"
#include "tests/golden/tally.h"

using namespace moescope;

namespace {

using Floats = std::vector<float>;

// The reference got its settings in double, but the file stores them in float32: 0.95, not 0.949999988.
double as_given(float stored) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.7g", static_cast<double>(stored));
  return std::strtod(digits, nullptr);
}

// The tensors NAME.* of one case: stacked matrices, and their values after each step.
class Case {
 public:
  Case(const SafetensorsFile& file, std::string name) : file_(file), name_(std::move(name)) {
    const std::vector<std::size_t>& shape = file.at(named("weight0")).shape;
    if (shape.size() < 2) throw std::runtime_error(named("weight0") + ": expected two or three axes");
    cols = shape.back();
    rows = shape[shape.size() - 2];
    stacked = shape.size() > 2 ? shape[0] : 1;
    steps = file.at(named("grad")).shape.at(0);
    const Floats hyper = floats("hyper");
    lr = as_given(hyper.at(0));
    ratio = static_cast<double>(hyper.at(4));
    config.name = OptimizerName::muon;
    config.weight_decay = as_given(hyper.at(1));
    config.muon_momentum = as_given(hyper.at(2));
    config.muon_nesterov = hyper.at(3) != 0;
    const std::vector<MuonScale> scales = {MuonScale::match_rms_adamw, MuonScale::original, MuonScale::spectral};
    for (const MuonScale scale : scales)
      if (std::fabs(muon_ratio(scale, static_cast<int>(rows), static_cast<int>(cols)) - ratio) < 1e-6 * ratio)
        config.muon_scale = scale;
  }
  std::string named(const std::string& tensor) const { return name_ + '.' + tensor; }
  Floats floats(const std::string& tensor) const { return file_.at(named(tensor)).floats(); }
  Floats step(const std::string& tensor, std::size_t index) const {
    const std::size_t count = stacked * rows * cols;
    if (file_.at(named(tensor)).elements() != steps * count)
      throw std::runtime_error(named(tensor) + ": expected a tensor like the weight for each of " +
                               std::to_string(steps) + " steps");
    return file_.at(named(tensor)).floats(index * count, count);
  }
  bool low_rank() const { return name_ == "low_rank"; }
  std::vector<MuonMatrix> matrices() const {
    std::vector<MuonMatrix> all;
    for (std::size_t i = 0; i < stacked; ++i)
      all.push_back({i * rows * cols, static_cast<int>(rows), static_cast<int>(cols)});
    return all;
  }

  std::size_t rows = 0, cols = 0, stacked = 0, steps = 0;
  double lr = 0, ratio = 0;
  OptimizerConfig config;

 private:
  const SafetensorsFile& file_;
  std::string name_;
};

void all_within(Tally& tally, const Floats& found, const Floats& want, double absolute, double relative = 0) {
  if (found.size() != want.size()) throw std::runtime_error("another number of values than computed");
  for (std::size_t i = 0; i < want.size(); ++i)
    tally.within(i, static_cast<double>(found[i]), static_cast<double>(want[i]),
                 absolute + relative * std::fabs(static_cast<double>(want[i])));
}

template <class T>
std::vector<T> directions(const Case& c, bool in_bf16, const Floats& prepared) {
  const std::vector<T> in(prepared.begin(), prepared.end());
  std::vector<T> out(in.size());
  for (const MuonMatrix& m : c.matrices())
    orthogonalise<T>(in_bf16, {in.data() + m.offset, m.rows, m.cols}, {out.data() + m.offset, m.rows, m.cols});
  return out;
}

// Returns the singular values of a matrix, largest first: rows (or columns, whichever are fewer) are rotated in pairs
// until all are orthogonal (one-sided Jacobi).
std::vector<double> singular_values(const float* m, std::size_t rows, std::size_t cols) {
  const bool wide = rows <= cols;
  const std::size_t n = std::min(rows, cols), length = std::max(rows, cols);
  std::vector<std::vector<double>> v(n, std::vector<double>(length));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < length; ++k) v[i][k] = static_cast<double>(wide ? m[i * cols + k] : m[k * cols + i]);
  const auto dot = [&](std::size_t i, std::size_t j) {
    double sum = 0;
    for (std::size_t k = 0; k < length; ++k) sum += v[i][k] * v[j][k];
    return sum;
  };
  for (int sweep = 0; sweep < 30; ++sweep)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = i + 1; j < n; ++j) {
        const double angle = std::atan2(2 * dot(i, j), dot(i, i) - dot(j, j)) / 2;
        const double cosine = std::cos(angle), sine = std::sin(angle);
        for (std::size_t k = 0; k < length; ++k) {
          const double a = v[i][k], b = v[j][k];
          v[i][k] = cosine * a + sine * b;
          v[j][k] = cosine * b - sine * a;
        }
      }
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = std::sqrt(dot(i, i));
  std::ranges::sort(values, std::greater());
  return values;
}

double largest_difference(const Floats& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(static_cast<double>(a[i]) - b[i]));
  return largest;
}

double cosine_of(const Floats& a, const Floats& b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  return ab / std::sqrt(aa * bb);
}

// A zero matrix has no angle.
void check_angle(const Case& c, const Floats& found, const Floats& want) {
  Tally tally(c.named("bf16.direction, cosine"));
  tally.within(0, cosine_of(found, want), 1, c.low_rank() ? 0.15 : 0.01);
}

void check_singular_values(const Case& c, const Floats& direction) {
  const Floats want = c.floats("f32.singular_values");
  const std::size_t n = std::min(c.rows, c.cols);
  if (want.size() != c.stacked * n) throw std::runtime_error(c.named("f32.singular_values") + ": another number");
  Tally tally(c.named("f32.singular_values"));
  for (std::size_t e = 0; e < c.stacked; ++e) {
    const std::vector<double> found = singular_values(direction.data() + e * c.rows * c.cols, c.rows, c.cols);
    Floats sorted(want.begin() + static_cast<std::ptrdiff_t>(e * n),
                  want.begin() + static_cast<std::ptrdiff_t>((e + 1) * n));
    std::ranges::sort(sorted, std::greater());
    for (std::size_t i = 0; i < n; ++i)
      tally.within(e * n + i, found[i], static_cast<double>(sorted[i]), c.low_rank() ? 5e-5 : 1e-5);
  }
}

void check_first_direction(const Case& c, const Floats& prepared, const Floats& f32, const Floats& bf16) {
  const std::vector<double> exact = directions<double>(c, false, prepared);
  const Floats error = c.floats("error");
  Tally tally(c.named("error"));
  tally.within(0, largest_difference(f32, exact), 0, c.low_rank() ? 5e-5 : 1e-5);
  tally.within(1, largest_difference(bf16, exact), 0, 3 * static_cast<double>(error.at(1)));
  check_singular_values(c, f32);
}

void check_case(const Case& c) {
  const double direction = c.low_rank() ? 5e-5 : 1e-5, step = c.lr * c.ratio;
  Floats momentum(c.stacked * c.rows * c.cols), weight = c.floats("weight0");
  Tally momenta(c.named("momentum")), prepared_tally(c.named("prepared")), directions_tally(c.named("f32.direction")),
      weights(c.named("f32.weight")), bf16_weights(c.named("bf16.weight"));
  const double bf16_error = 4 * static_cast<double>(c.floats("error").at(1));
  for (std::size_t s = 0; s < c.steps; ++s) {
    const Floats gradient = c.step("grad", s), before = momentum, weight_before = weight;
    Floats prepared(momentum.size());
    const std::size_t rows = c.stacked * c.rows;
    muon_prepare<float>(MuonFactors<float>(c.config, 1), {gradient.data(), rows, c.cols},
                        {momentum.data(), rows, c.cols}, {prepared.data(), rows, c.cols});
    all_within(momenta, momentum, c.step("momentum", s), 0, 1e-6);
    all_within(prepared_tally, prepared, c.step("prepared", s), 0, 1e-6);
    const Floats f32 = directions<float>(c, false, prepared), bf16 = directions<float>(c, true, prepared);
    all_within(directions_tally, f32, c.step("f32.direction", s), direction);
    check_angle(c, bf16, c.step("bf16.direction", s));
    if (s == 0) check_first_direction(c, prepared, f32, bf16);
    Floats trained_momentum = before;
    muon_update<float>(c.config, c.lr, 1, c.matrices(), {gradient, weight, trained_momentum, {}});
    all_within(weights, weight, c.step("f32.weight", s), 1e-6 + step * direction);
    OptimizerConfig in_bf16 = c.config;
    in_bf16.muon_bf16 = true;
    Floats bf16_weight = s == 0 ? weight_before : c.step("bf16.weight", s - 1);
    trained_momentum = before;
    muon_update<float>(in_bf16, c.lr, 1, c.matrices(), {gradient, bf16_weight, trained_momentum, {}});
    all_within(bf16_weights, bf16_weight, c.step("bf16.weight", s), 1e-6 + step * bf16_error);
  }
}

void check_cases(const SafetensorsFile& file) {
  constexpr std::string_view kSuffix = ".weight0";
  for (const TensorView& tensor : file.tensors())
    if (tensor.name.ends_with(kSuffix))
      check_case(Case(file, tensor.name.substr(0, tensor.name.size() - kSuffix.size())));
}

}  // namespace

int main(int argc, char** argv) {
  return check_folder("golden_muon", argc, argv, {{"muon", check_cases}});
}
