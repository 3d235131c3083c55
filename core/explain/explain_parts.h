// Helpers that build the expression of a figure. Scalars, arrays of a layer and operands have a file each
// (explain_scalars.cpp, explain_arrays.cpp, explain_operands.cpp); explain.cpp finds the value to explain.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/explain/explain.h"

namespace moescope::explaining {

// An expression and its note.
struct Parts {
  std::string expression, note;
};

struct Context {
  const History& history;
  const FigureTarget& target;
  std::int64_t step = 0;                        // of the value shown
  std::shared_ptr<const TelemetryFrame> frame;  // with arrays, at or before; may be older than `step`
  const RouterFrame* router = nullptr;          // of the target's layer, of the very step; nullptr: none
  double value = 0;

  std::int64_t tokens() const { return history.info().tokens_per_step; }
  const RunInfo& info() const { return history.info(); }
  // nullopt: not known.
  template <class Section, class T>
  std::optional<T> setting(T Section::*member) const {
    return history.settings_at(step)->value(member);
  }
};

inline constexpr std::size_t kMaxTerms = 10;  // of a sum or mean that are written out
std::string num(double value);
std::uint64_t total(const std::vector<std::uint32_t>& counts);
std::string many(const char* function, const std::vector<double>& values);
// Long ones are shortened to an expression of the same value.
std::string mean_text(const std::vector<double>& values);
std::string sum_text(const std::vector<double>& values);
Parts plain(const Context& at, std::string note = {});
Parts gradient_snr(const Context& at);
Parts angle(const Context& at, const char* between);

// Each may change the value and step of `at` to those that it explains; nullopt: there is no such figure.
Parts scalar_parts(const Context& at, Metric metric);
std::optional<Parts> array_parts(Context& at);
std::optional<Parts> what_if(Context& at);  // of another padding or capacity factor
Parts quant_parts(Context& at, const QuantFrame& quant);
const QuantFrame* find_quant(const TelemetryFrame& frame, const FigureTarget& target);

}  // namespace moescope::explaining
