#include "core/findings/comparison/operand_sqnr.h"

#include <algorithm>
#include <cmath>

#include "core/files/text/words.h"

namespace moescope {
namespace {

using Operands = std::vector<QuantFrame>;

Operands operands_of(const History& run, std::int64_t step) {
  const auto frame = run.quant_frame_at(step);
  return frame ? frame->quants : Operands();
}

// Returns the format of an operand; QuantFormat() if it is not quantized.
QuantFormat format_at(const Operands& operands, const OperandPlace& place) {
  const auto found = std::ranges::find_if(operands, [&](const OperandPlace& other) { return other == place; });
  return found == operands.end() ? QuantFormat() : found->format;
}

bool is_scaled(const QuantFrame& operand) {
  return operand.format.scale != QuantScale::none;
}

template <class Wanted>
OperandSqnr sqnr_of(const Operands& operands, OperandChoice choice, Wanted is_wanted) {
  OperandSqnr sqnr;
  double sum = 0;
  int finite = 0;
  for (const QuantFrame& operand : operands) {
    if (std::isnan(operand.sqnr_db) || !is_wanted(operand)) continue;
    sqnr.choice = choice;
    ++sqnr.operands;
    if (sqnr.operands == 1 || operand.sqnr_db < sqnr.worst_db) {
      sqnr.worst_db = operand.sqnr_db;
      sqnr.worst = operand;
    }
    if (std::isfinite(operand.sqnr_db)) {
      sum += operand.sqnr_db;
      ++finite;
    }
  }
  if (sqnr.operands > 0) sqnr.mean_db = finite > 0 ? static_cast<float>(sum / finite) : sqnr.worst_db;
  return sqnr;
}

// Returns the SQNR of run A, or of a run with run A's formats: over the operands in which any run differs from it, else
// over those of at most 8 bits, else over all.
OperandSqnr common_sqnr(const Operands& operands, const std::vector<Operands>& runs) {
  const auto differs = [&](const QuantFrame& operand) {
    return std::ranges::any_of(runs,
                               [&](const Operands& other) { return format_at(other, operand) != operand.format; });
  };
  const OperandSqnr differing = sqnr_of(operands, OperandChoice::differing, differs);
  if (differing.operands > 0) return differing;
  const OperandSqnr scaled = sqnr_of(operands, OperandChoice::scaled, is_scaled);
  return scaled.operands > 0 ? scaled : sqnr_of(operands, OperandChoice::all, [](const QuantFrame&) { return true; });
}

const char* words_of(OperandChoice choice) {
  if (choice == OperandChoice::differing) return " in which the runs differ";
  return choice == OperandChoice::scaled ? " in 8 bits or fewer" : "";
}

}  // namespace

std::vector<OperandSqnr> operand_sqnr(std::span<const HistoryPtr> runs, std::int64_t step) {
  std::vector<Operands> operands;
  for (const HistoryPtr& run : runs) operands.push_back(operands_of(*run, step));
  std::vector<OperandSqnr> found;
  for (const Operands& run_operands : operands) {
    const auto differs_from_a = [&](const QuantFrame& operand) {
      return format_at(operands.front(), operand) != operand.format;
    };
    const OperandSqnr differing = sqnr_of(run_operands, OperandChoice::differing, differs_from_a);
    found.push_back(differing.operands > 0 ? differing : common_sqnr(run_operands, operands));
  }
  return found;
}

std::string to_text(const OperandSqnr& sqnr) {
  if (sqnr.operands == 0) return {};
  const auto db = [](float value) { return std::isfinite(value) ? decimal(value) + " dB" : std::string("exact"); };
  return db(sqnr.worst_db) + " at worst (" + place_text(sqnr.worst) + "), " + db(sqnr.mean_db) + " on average over " +
         counted(sqnr.operands, "operand", "operands") + words_of(sqnr.choice);
}

}  // namespace moescope
