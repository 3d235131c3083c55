// Reads claims from TOML files and reports all problems at once, each with its line.
#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "core/config/config_difference.h"
#include "core/config/config_toml.h"
#include "core/files/assets.h"
#include "core/files/text/words.h"
#include "core/lessons/claim.h"
#include "core/lessons/digest.h"
#include "core/lessons/toml_runs.h"

namespace moescope {
namespace {

constexpr std::size_t kMaxClaimBytes = std::size_t{1} << 20;
constexpr std::int64_t kMaxClaimSteps = 100000;
constexpr int kMaxClaimSeeds = 100;
constexpr std::int64_t kRouterFiguresEvery = 20;  // steps; fewer if a comparison averages over fewer last steps
constexpr std::string_view kClaims = "claims/", kClaimResults = "claims/results.toml";

ClaimComparison read_comparison(TomlSection& section, const Claim& claim) {
  ClaimComparison comparison;
  comparison.text = section.required_text("text");
  comparison.published = section.required_text("published");
  comparison.run = read_run(section, "run", 1, claim.runs.size());
  comparison.against = read_run(section, "against", 0, claim.runs.size());
  if (comparison.run == comparison.against) section.problem("run", "must differ from against");
  const std::string figure = section.required_text("figure");
  if (const auto metric = find_scalar(figure))
    comparison.metric = *metric;
  else if (!figure.empty())
    section.problem("figure", "there is no metric " + figure);
  comparison.last = section.integer("last", 1, 1, std::max<std::int64_t>(1, claim.steps));
  for (const RunConfig& config : claim.runs)
    if (const int interval = config.telemetry.validation_every;
        comparison.metric == Metric::val_loss && (interval == 0 || interval > comparison.last)) {
      section.problem(
          "last", fmt::format("is {}, in which run {} may have no validation loss: telemetry.validation_every is {}",
                              comparison.last, config.name, interval));
      break;
    }
  comparison.expect = static_cast<ClaimExpect>(section.choice("expect", {"higher", "lower", "equal"}, 2));
  if (!section.has("expect")) section.problem("expect", "is missing; allowed: higher, lower, equal");
  if (comparison.expect == ClaimExpect::equal && !section.has("within"))
    section.problem("within", "is missing: the largest difference that counts as none");
  if (comparison.expect != ClaimExpect::equal && section.has("within"))
    section.problem("within", "is allowed only with expect = \"equal\"");
  comparison.within = section.number("within", 0, 0, 1e9);
  return comparison;
}

// Turns off telemetry that takes time and that no comparison reads.
void measure_only(std::span<const ClaimComparison> comparisons, RunConfig& config) {
  TelemetryConfig& telemetry = config.telemetry;
  std::int64_t interval = kRouterFiguresEvery;
  for (const ClaimComparison& comparison : comparisons) interval = std::min(interval, comparison.last);
  telemetry.frame_interval = to_int(interval);
  telemetry.quant_every = kMaxClaimSteps;
  telemetry.flips_every = telemetry.gradient_every = telemetry.specialisation_every = telemetry.texts_every = 0;
  telemetry.sample_every = telemetry.checkpoint_every = 0;
}

Claim read_claim(TomlSection& root) {
  Claim claim;
  claim.title = root.required_text("title");
  claim.statement = root.required_text("statement");
  claim.source = root.required_text("source");
  claim.steps = root.integer("steps", 1, 1, kMaxClaimSteps);
  claim.seeds = to_int(root.integer("seeds", 1, 1, kMaxClaimSeeds));
  for (const char* key : {"steps", "seeds"}) root.require(key);
  root.inside("runs", [&](TomlSection& runs) { claim.runs = read_runs(runs, {}); });
  if (claim.runs.size() < 2) root.problem("runs", "a claim needs [runs] with a [[runs.run]] to compare with");
  root.for_each_section("compare",
                        [&](TomlSection& section) { claim.comparisons.push_back(read_comparison(section, claim)); });
  if (claim.comparisons.empty()) root.problem("compare", "a claim needs at least one [[compare]]");
  for (RunConfig& config : claim.runs) measure_only(claim.comparisons, config);
  return claim;
}

}  // namespace

ParsedClaim parse_claim(std::string_view text, std::string_view file) {
  TomlProblems problems{std::string(file)};
  ParsedClaim parsed;
  read_toml(text, problems, [&](TomlSection& root) {
    parsed.claim = read_claim(root);
    parsed.claim.name = name_without_number(file);
  });
  problems.sort();
  parsed.problems = std::move(problems.found);
  return parsed;
}

std::vector<std::string> claim_names() {
  std::vector<std::string> names = names_in(kClaims);
  std::erase(names, name_without_number(kClaimResults));
  return names;
}

ParsedClaim find_claim(std::string_view name) {
  for (const std::string_view file : assets_in(kClaims))
    if (file != kClaimResults && name == name_without_number(file)) return parse_claim(asset(file), file);
  if (!name.ends_with(".toml"))
    return unread<ParsedClaim>(
        name, "no such claim; allowed: " + joined(claim_names(), ", ") + ", or the path of a .toml file");
  std::string text;
  const std::string reason = read_toml_file(std::string(name), kMaxClaimBytes, "claim", text);
  return reason.empty() ? parse_claim(text, name) : unread<ParsedClaim>(name, reason);
}

std::string settings_digest(const Claim& claim) {
  std::string text = std::to_string(claim.steps);
  for (const RunConfig& config : claim.runs) {
    text += '\n';
    for (const ConfigDifference& changed : difference(RunConfig{}, config))
      if (!changed.setting.is_in<TelemetryConfig>() && !changed.setting.is_in<ParallelConfig>() &&
          changed.setting != &RunConfig::portable)
        text += changed.setting.key() + '=' + changed.b + ';';
  }
  Digest digest;
  digest.add(text);
  return digest.text();
}

}  // namespace moescope
