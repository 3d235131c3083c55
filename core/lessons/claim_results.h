// What came of published claims: differences over seeds, their interval, and a verdict.
//
// The results of the built-in claims are kept in assets/claims/results.toml, with date and machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/lessons/claim.h"
#include "core/training/engine/sweep.h"

namespace moescope {

// A comparison of a claim, measured.
struct ClaimResult {
  std::string claim;     // Claim::name
  int comparison = 0;    // its index in Claim::comparisons
  std::string settings;  // settings_digest() of what was trained
  std::int64_t steps = 0;
  std::vector<double> values, gaps;  // by seed: figure of `against`, and that of `run` minus it; NaN: a run was lost
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

// Agrees: the whole interval mean +-half is on the expected side of 0, or, where no difference is expected, within
// `within` of it. Contradicts: the whole interval is on the other side, or, where none is expected, excludes 0 and
// reaches beyond `within`. Else the miniature is too small: the effect drowns in chance. Without an interval, of a
// single seed, too small as well; without a mean not tried.
ClaimVerdict judge_claim(const ClaimComparison& comparison, const SeedMean& gap);

// A row of the table.
struct ClaimRow {
  const Claim* claim = nullptr;
  const ClaimComparison* comparison = nullptr;
  const ClaimResult* result = nullptr;  // nullptr: not tried, or with other settings than the claim has now
  SeedMean gap;
  int pairs = 0;  // seeds that both runs ended
  ClaimVerdict verdict = ClaimVerdict::not_tried;

  std::string here() const;  // "+0.0910 +-0.0120, 10 seeds"; empty: not tried
};
// Each interval allows for all rows that have a result (Bonferroni): if nothing differed, about 1 of 20 such tables had
// an interval that excludes 0. The rows refer to the arguments.
std::vector<ClaimRow> claim_rows(std::span<const Claim> claims, const ClaimResults& results);

// Sentences below the table: date, machine, and what the intervals mean. Empty without results.
std::string claim_notes(std::span<const ClaimRow> rows, const ClaimResults& results);
// The table of docs/claims.md, in Markdown, with its notes.
std::string claims_in_markdown(std::span<const ClaimRow> rows, const ClaimResults& results);

}  // namespace moescope
