// Helpers that build the expression of a figure. explain.cpp finds the value to explain; scalars, arrays of a layer and
// operands have a file each (explain_scalars.cpp, explain_arrays.cpp, explain_operands.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/findings/explain/explain.h"

namespace moescope::explaining {

// An expression and its note.
struct Parts {
  std::string expression, note;
};

struct Context {
  const History& history;
  const FigureTarget& target;
  std::int64_t step = 0;                        // step of the value
  std::shared_ptr<const TelemetryFrame> frame;  // newest frame with arrays at or before `step`
  const RouterFrame* router = nullptr;          // router of the target's layer at exactly `step`; nullptr: none
  double value = 0;

  std::int64_t tokens() const { return history.info().tokens_per_step; }
  const RunInfo& info() const { return history.info(); }
  // Returns nullopt if the setting is not known.
  template <class Section, class T>
  std::optional<T> setting(T Section::*member) const {
    return history.settings_at(step)->value(member);
  }
};

inline constexpr std::size_t kMaxTerms = 10;  // longer sums and means are not written out
std::string num(double value);
std::uint64_t total(const std::vector<std::uint32_t>& counts);
std::string function_of_values(const char* function, const std::vector<double>& values);
// Return the mean and the sum as expressions. Long lists are shortened to an expression of the same value.
std::string mean_text(const std::vector<double>& values);
std::string sum_text(const std::vector<double>& values);
// Explains the mean over the values of the layers; nullopt if there are none.
std::optional<Parts> mean_of_layers(Context& at, const std::vector<double>& values, const std::string& note);
// Explains the rows that are added if each expert's rows are padded to a multiple, as a share of the slots.
Parts padded_to(const std::vector<std::uint32_t>& counts, double multiple);
Parts plain(const Context& at, std::string note = {});
Parts gradient_snr(const Context& at);
Parts angle(const Context& at, const char* between);

// These functions may set `at.value` and `at.step` to the explained value and its step. They return nullopt if there is
// no such figure.
Parts scalar_parts(const Context& at, Metric metric);
std::optional<Parts> array_parts(Context& at);
std::optional<Parts> what_if(Context& at);  // a figure at another alignment or capacity factor
Parts quant_parts(Context& at, const QuantFrame& quant);
const QuantFrame* find_quant(const TelemetryFrame& frame, const FigureTarget& target);

}  // namespace moescope::explaining
