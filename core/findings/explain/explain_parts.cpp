#include "core/findings/explain/explain_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/files/text/words.h"

namespace moescope::explaining {
namespace {

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / values.size();
}

}  // namespace

std::string num(double value) {
  return fmt::format("{:.6g}", value);
}

std::uint64_t total(const std::vector<std::uint32_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::string function_of_values(const char* function, const std::vector<double>& values) {
  if (values.size() == 1) return num(values[0]);
  return std::string(function) + "(" + joined(values, ", ", num) + ")";
}

std::string mean_text(const std::vector<double>& values) {
  if (values.size() <= kMaxTerms) return function_of_values("mean", values);
  return fmt::format("{} / {}", num(std::accumulate(values.begin(), values.end(), 0.0)), values.size());
}

std::string sum_text(const std::vector<double>& values) {
  if (values.size() <= kMaxTerms) return joined(values, " + ", num);
  return fmt::format("{} * {}", values.size(), num(mean_of(values)));
}

std::optional<Parts> mean_of_layers(Context& at, const std::vector<double>& values, const std::string& note) {
  if (values.empty()) return std::nullopt;
  at.value = mean_of(values);
  return Parts{mean_text(values), "mean over the MoE layers, " + note};
}

Parts padded_to(const std::vector<std::uint32_t>& counts, double multiple) {
  const double slots = total(counts);
  double rows = 0;
  for (const std::uint32_t n : counts) rows += std::ceil(n / multiple) * multiple;
  return {"(" + num(rows) + " - " + num(slots) + ") / " + num(slots),
          "rows when the rows of each expert are padded to a multiple of " + num(multiple) + ", and copies"};
}

Parts plain(const Context& at, std::string note) {
  return {num(at.value), std::move(note)};
}

Parts gradient_snr(const Context& at) {
  if (!std::isfinite(at.value)) return plain(at, "the gradient equals the FP32 gradient bit for bit");
  const double error = std::pow(10.0, -at.value / 20);
  return {"20 * log10(1 / " + num(error) + ")",
          "the norm of the error is " + num(error) + " times the norm of the FP32 gradient"};
}

Parts angle(const Context& at, const char* between) {
  const double radians = std::acos(std::clamp(at.value, -1.0, 1.0));
  return {"cos(" + num(radians) + ")", "an angle of " + decimal(radians * 57.29577951, 2) + " degrees " + between};
}

}  // namespace moescope::explaining
