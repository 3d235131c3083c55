// Results of published claims: their training, differences for each seed, the interval of their mean, and a verdict.
//
// The results of the built-in claims are kept in assets/claims/results.toml, with date and machine.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/lessons/claim.h"
#include "core/training/engine/sweep.h"

namespace moescope {

// The measured values of a comparison.
struct ClaimResult {
  std::string claim;     // Claim::name
  int comparison = 0;    // its index in Claim::comparisons
  std::string settings;  // settings_digest() of the claim that was trained
  std::int64_t steps = 0;
  // For each seed: the figure of `against`; the figure of `run` minus that of `against`. NaN: a run was lost.
  std::vector<double> values, gaps;
};

struct ClaimResults {
  std::string date;     // "2026-11-27"
  std::string machine;  // "16 threads, OpenBLAS 0.3.21 SkylakeX, ..."
  std::vector<ClaimResult> results;
};

std::string to_toml(const ClaimResults& results);
// Throws std::runtime_error "FILE:LINE: why".
ClaimResults parse_claim_results(std::string_view toml, std::string_view file_name);
const ClaimResults& kept_claim_results();  // assets/claims/results.toml

enum class ClaimVerdict : std::uint8_t { not_tried, agrees, contradicts, too_small };
const char* claim_verdict_words(ClaimVerdict verdict);  // "not tried", "agrees", "contradicts", "too small to see here"

// Agrees: the whole interval mean +-half is on the expected side of 0; or, if no difference is expected, it is within
// +-`within`. Contradicts: the whole interval is on the other side of 0; or, if no difference is expected, it excludes
// 0 and reaches beyond +-`within`. Too small: the effect is not distinguishable from chance, or there is no interval
// because there is a single seed. Not tried: there is no mean.
ClaimVerdict judge_claim(const ClaimComparison& comparison, const SeedMean& gap);

// A row of the table.
struct ClaimRow {
  const Claim* claim = nullptr;
  const ClaimComparison* comparison = nullptr;
  const ClaimResult* result = nullptr;  // nullptr: not tried, or with other settings than the claim has now
  SeedMean gap = {};
  int pairs = 0;  // number of seeds with which neither run was lost
  ClaimVerdict verdict = ClaimVerdict::not_tried;

  std::string gap_text() const;  // "+0.0910 +-0.0120, 10 seeds"; empty: not tried
};
// Returns a row for each comparison, which refers to the arguments. The intervals are wide enough for all rows with a
// result together (Bonferroni): if nothing differed, about 1 of 20 such tables would have an interval that excludes 0.
std::vector<ClaimRow> claim_rows(std::span<const Claim> claims, const ClaimResults& results);

// Returns the sentences below the table: date, machine, meaning of the intervals. Empty without results.
std::string claim_notes(std::span<const ClaimRow> rows, const ClaimResults& results);
// Returns the table of docs/claims.md in Markdown, with its notes.
std::string claims_in_markdown(std::span<const ClaimRow> rows, const ClaimResults& results);

// Trains the runs of claims (run_pool.h) and measures their comparisons. Throws std::runtime_error if a training fails;
// a run whose loss becomes NaN or infinite is lost, which is not a failure. Sets date and machine of the results.
ClaimResults try_claims(std::span<const Claim> claims, const std::function<void(int ended, int all)>& progress = {});

}  // namespace moescope
