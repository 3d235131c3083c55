// Claims: the file's errors, the verdict on made-up numbers, the kept results and the page made of them, and a tiny
// claim that is tried.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "core/lessons/claim_results.h"
#include "core/lessons/lesson_twins.h"
#include "core/numerics/threads.h"

using namespace moescope;

namespace {

const std::string kClaimHead =
    "title = \"T\"\nstatement = \"S\"\nsource = \"A\"\nsteps = 4\nseeds = 2\n"
    "[runs]\npreset = \"nano\"\nname = \"sign\"\n"
    "set = { data.batch = 2, data.seq = 16, telemetry.validation_every = 2 }\n"
    "[[runs.run]]\nname = \"none\"\nset = { router.bias_update_rate = 0 }\n";
const std::string kCompare = "[[compare]]\ntext = \"t\"\npublished = \"p\"\nfigure = \"ce_loss\"\nlast = 2\n";

std::string claim_problems(const std::string& text) {
  std::string all;
  for (const ConfigProblem& problem : parse_claim(text, "my.toml").problems) all += problem.text() + "\n";
  return all;
}

Claim tiny_claim() {
  const ParsedClaim parsed = parse_claim(kClaimHead + kCompare + "expect = \"equal\"\nwithin = 1\n", "tiny.toml");
  EXPECT_TRUE(parsed.problems.empty()) << parsed.problems.front().text();
  return parsed.claim;
}

ClaimVerdict verdict(ClaimExpect expect, double mean, double half_width, double within = 0) {
  ClaimComparison comparison;
  comparison.expect = expect;
  comparison.within = within;
  return judge_claim(comparison, {mean, half_width});
}

ClaimResult made_up(const Claim& claim, std::vector<double> gaps) {
  return {claim.name, 0, settings_digest(claim), claim.steps, std::vector<double>(gaps.size(), 1.5), std::move(gaps)};
}

}  // namespace

TEST(ClaimFile, NamesEveryProblemWithItsLine) {
  EXPECT_EQ(claim_problems(kClaimHead + kCompare + "expect = \"higher\"\n"), "");
  EXPECT_EQ(claim_problems("title = \n").substr(0, 10), "my.toml:1:");
  const std::string found = claim_problems(kClaimHead +
                                           "[[compare]]\ntext = \"t\"\nfigure = \"los\"\nrun = \"C\"\n"
                                           "expect = \"equal\"\ncolour = 1\n");
  EXPECT_NE(found.find("my.toml:13: compare 1.published: is missing\n"), std::string::npos) << found;
  EXPECT_NE(found.find("my.toml:15: compare 1.figure: there is no metric los\n"), std::string::npos) << found;
  EXPECT_NE(found.find("my.toml:16: compare 1.run: there is no run C: the number of runs is 2\n"), std::string::npos)
      << found;
  EXPECT_NE(found.find("my.toml:13: compare 1.within: is missing"), std::string::npos) << found;
  EXPECT_NE(found.find("my.toml:18: compare 1.colour: no such key; allowed: "), std::string::npos) << found;
}

// Rules between settings name the line of a setting of the run, also if it is that of run A.
TEST(ClaimFile, NamesTheLineOfTheSettingThatARuleRefuses) {
  const std::string head = "title = \"T\"\nstatement = \"S\"\nsource = \"A\"\nsteps = 4\nseeds = 2\n";
  const std::string run_problem =
      claim_problems(head + "[runs]\npreset = \"nano\"\n[[runs.run]]\nname = \"b\"\nset = { parallel.ranks = 7 }\n" +
                     kCompare + "expect = \"higher\"\n");
  EXPECT_NE(run_problem.find("my.toml:10: parallel.ranks: run b: ranks is 7"), std::string::npos) << run_problem;
  const std::string common_problem = claim_problems(
      head +
      "[runs]\npreset = \"nano\"\nset.parallel.ranks = 7\n[[runs.run]]\nname = \"b\"\nset = { router.z_coeff = 0 }\n" +
      kCompare + "expect = \"higher\"\n");
  EXPECT_NE(common_problem.find("my.toml:8: parallel.ranks: run b: ranks is 7"), std::string::npos) << common_problem;
}

TEST(ClaimFile, NeedsTwoRunsAndAComparison) {
  const std::string found = claim_problems(
      "title = \"T\"\nstatement = \"S\"\nsource = \"A\"\nseeds = 2\n[runs]\npreset = \"nano\"\nset = { router.topk = 1 "
      "}\n");
  EXPECT_NE(found.find("steps: is missing"), std::string::npos) << found;
  EXPECT_NE(found.find("my.toml:7: runs.set.router.topk: no such setting"), std::string::npos) << found;
  EXPECT_NE(found.find("runs: a claim needs [runs] with a [[runs.run]]"), std::string::npos) << found;
  EXPECT_NE(found.find("compare: a claim needs at least one [[compare]]"), std::string::npos) << found;
  EXPECT_NE(
      claim_problems(kClaimHead + kCompare + "expect = \"lower\"\nwithin = 1\n").find("is allowed only with expect"),
      std::string::npos);
  EXPECT_NE(find_claim("no-such").problems.front().message.find("allowed: frozen-router"), std::string::npos);
  EXPECT_EQ(find_claim("no-such.toml").problems.front().message, "no such file");
}

TEST(ClaimFile, RefusesAFigureThatTheLastStepsMayNotHave) {
  const std::string val_loss =
      "[[compare]]\ntext = \"t\"\npublished = \"p\"\nfigure = \"val_loss\"\nexpect = \"lower\"\n";
  const std::string found = claim_problems(kClaimHead + val_loss);
  EXPECT_NE(found.find("compare 1.last: is 1, in which run sign may have no validation loss"), std::string::npos)
      << found;
  EXPECT_EQ(claim_problems(kClaimHead + val_loss + "last = 2\n"), "");
}

TEST(ClaimVerdicts, OfAnExpectedSign) {
  using enum ClaimExpect;
  EXPECT_EQ(verdict(higher, 0.09, 0.01), ClaimVerdict::agrees);
  EXPECT_EQ(verdict(higher, -0.09, 0.01), ClaimVerdict::contradicts);
  EXPECT_EQ(verdict(higher, 0.005, 0.01), ClaimVerdict::too_small);
  EXPECT_EQ(verdict(lower, -0.09, 0.01), ClaimVerdict::agrees);
  EXPECT_EQ(verdict(lower, 0.09, 0.01), ClaimVerdict::contradicts);
  EXPECT_EQ(verdict(lower, -0.01, 0.01), ClaimVerdict::too_small) << "the interval ends at 0";
  EXPECT_EQ(verdict(lower, -0.09, NAN), ClaimVerdict::too_small) << "one seed";
  EXPECT_EQ(verdict(lower, NAN, NAN), ClaimVerdict::not_tried);
}

TEST(ClaimVerdicts, OfNoDifference) {
  using enum ClaimExpect;
  EXPECT_EQ(verdict(equal, 0.001, 0.003, 0.005), ClaimVerdict::agrees);
  EXPECT_EQ(verdict(equal, 0.003, 0.001, 0.005), ClaimVerdict::agrees) << "more than chance, and too little to matter";
  EXPECT_EQ(verdict(equal, 0.003, 0.006, 0.005), ClaimVerdict::too_small);
  EXPECT_EQ(verdict(equal, 0.02, 0.006, 0.005), ClaimVerdict::contradicts);
  EXPECT_EQ(verdict(equal, -0.02, 0.006, 0.005), ClaimVerdict::contradicts);
}

TEST(ClaimRows, IntervalsAllowForAllRows) {
  const std::vector<Claim> claims = {tiny_claim(), tiny_claim()};
  ClaimResults results{"2026-11-27", "a machine", {made_up(claims[0], {0.1, 0.2, 0.3})}};
  const std::vector<Claim> one = {claims[0]};
  const ClaimRow row = claim_rows(one, results).front();
  EXPECT_NEAR(row.gap.mean, 0.2, 1e-12);
  EXPECT_NEAR(row.gap.half_width, 4.302653 * 0.1 / std::sqrt(3), 1e-6);  // t of 2 degrees of freedom, 95 %
  const std::vector<ClaimRow> both = claim_rows(claims, results);
  EXPECT_NEAR(both.front().gap.half_width, 6.205347 * 0.1 / std::sqrt(3), 1e-5);  // 97.5 %
  EXPECT_EQ(both.front().gap_text(), "+0.2000 +-0.3583, 3 seeds");
  results.results.front().gaps[1] = NAN;
  EXPECT_EQ(claim_rows(one, results).front().pairs, 2) << "a run was lost";
}

TEST(ClaimRows, ResultsOfOtherSettingsDoNotCount) {
  std::vector<Claim> claims = {tiny_claim()};
  const ClaimResults results{"2026-11-27", "a machine", {made_up(claims[0], {0.1, 0.2, 0.3})}};
  EXPECT_EQ(claim_rows(claims, results).front().verdict, ClaimVerdict::agrees);
  claims[0].title = "another";
  EXPECT_EQ(claim_rows(claims, results).front().verdict, ClaimVerdict::agrees);
  claims[0].runs[1].router.top_k = 1;
  EXPECT_EQ(claim_rows(claims, results).front().verdict, ClaimVerdict::not_tried);
  EXPECT_EQ(claim_notes(claim_rows(claims, results), results), "");
}

TEST(ClaimResultsFile, ReadsWhatItWrites) {
  const Claim claim = tiny_claim();
  const ClaimResults written{"2026-11-27", "2 threads", {made_up(claim, {0.125, NAN, -0.25})}};
  const ClaimResults read = parse_claim_results(to_toml(written), "results.toml");
  EXPECT_EQ(read.date, written.date);
  EXPECT_EQ(read.machine, written.machine);
  ASSERT_EQ(read.results.size(), 1u);
  EXPECT_EQ(read.results[0].claim, "tiny");
  EXPECT_EQ(read.results[0].settings, settings_digest(claim));
  EXPECT_EQ(read.results[0].gaps[2], -0.25);
  EXPECT_TRUE(std::isnan(read.results[0].gaps[1]));
  try {
    parse_claim_results(
        "date = \"d\"\nmachine = \"m\"\n[[result]]\nclaim = \"c\"\nsettings = \"s\"\nvalues = [1]\ngaps = 2\n",
        "r.toml");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "r.toml:7: result 1.gaps: must be a list of numbers");
  }
}

std::vector<Claim> published_claims() {
  std::vector<Claim> claims;
  for (const std::string& name : claim_names()) claims.push_back(find_claim(name).claim);
  return claims;
}

TEST(BuiltInClaims, ComparedRunsDifferInStatedSettings) {
  const std::vector<Claim> claims = published_claims();
  EXPECT_GE(claims.size(), 9u);
  std::set<std::string> names;
  for (const Claim& claim : claims) {
    SCOPED_TRACE(claim.name);
    const ParsedClaim parsed = find_claim(claim.name);
    ASSERT_TRUE(parsed.problems.empty()) << parsed.problems.front().text();
    EXPECT_TRUE(names.insert(claim.name).second);
    EXPECT_GE(claim.seeds, 5);
    for (const RunConfig& config : claim.runs) EXPECT_EQ(config.optimizer.total_steps, claim.steps);
    for (const ClaimComparison& comparison : claim.comparisons) {
      const auto& configs = claim.runs;
      EXPECT_FALSE(things_that_differ(configs[static_cast<std::size_t>(comparison.against)],
                                      configs[static_cast<std::size_t>(comparison.run)])
                       .empty());
      EXPECT_TRUE(comparison.metric != Metric::val_loss || configs.front().telemetry.validation_every > 0);
    }
  }
}

// Every kept result was measured with the present settings of its claim, so that a changed claim is measured again.
TEST(BuiltInClaims, StoredResultsMatchClaims) {
  const std::vector<Claim> claims = published_claims();
  const std::vector<ClaimRow> rows = claim_rows(claims, kept_claim_results());
  for (const ClaimResult& result : kept_claim_results().results)
    EXPECT_TRUE(std::ranges::any_of(rows, [&](const ClaimRow& row) { return row.result == &result; }))
        << result.claim << " " << result.comparison + 1;
}

TEST(BuiltInClaims, ThePageShowsTheKeptResults) {
  std::ifstream file(std::string(MOESCOPE_TEST_DATA) + "/../docs/claims.md");
  std::stringstream page;
  page << file.rdbuf();
  const std::vector<Claim> claims = published_claims();
  const std::string table = claims_in_markdown(claim_rows(claims, kept_claim_results()), kept_claim_results());
  EXPECT_NE(page.str().find("\n\n" + table), std::string::npos) << "moescope-cli claims --markdown prints:\n" << table;
}

TEST(ClaimRunner, TriesATinyClaimWithTheSameNumbersOnAnyThreads) {
  const std::vector<Claim> claims = {tiny_claim()};
  set_num_threads(1);
  int last = 0, all = 0;
  const ClaimResults single = try_claims(claims, [&](int ended, int runs) {
    last = ended;
    all = runs;
  });
  EXPECT_EQ(last, 4);
  EXPECT_EQ(all, 4);
  set_num_threads(3);
  const ClaimResults side_by_side = try_claims(claims);
  EXPECT_EQ(num_threads(), 3) << "as before";
  set_num_threads(0);
  ASSERT_EQ(single.results.size(), 1u);
  ASSERT_EQ(single.results[0].gaps.size(), 2u);
  EXPECT_EQ(single.results[0].gaps, side_by_side.results[0].gaps);
  EXPECT_NE(single.results[0].gaps[0], 0);
  EXPECT_NE(single.results[0].values[0], single.results[0].values[1]) << "another seed";
  EXPECT_EQ(single.date.size(), 10u);
  EXPECT_NE(claim_rows(claims, single).front().verdict, ClaimVerdict::not_tried);
}

TEST(ClaimRunner, MeasuresRouters) {
  const ParsedClaim parsed = parse_claim(
      kClaimHead +
          "[[compare]]\ntext = \"t\"\npublished = \"p\"\nfigure = \"max_vio_window\"\nlast = 2\nexpect = \"lower\"\n",
      "load.toml");
  ASSERT_TRUE(parsed.problems.empty()) << parsed.problems.front().text();
  std::vector<Claim> claims = {parsed.claim};
  claims[0].runs[0].router.initial_bias = "*:0=9";
  const ClaimResults results = try_claims(claims);
  EXPECT_GT(results.results[0].values[0], 2) << "one expert gets every byte";
  EXPECT_LT(results.results[0].gaps[0], -1);
}

TEST(ClaimRunner, TrainsEqualRunsOnce) {
  std::vector<Claim> claims = {tiny_claim(), tiny_claim()};
  claims[1].name = "other";
  claims[1].runs[1].router.top_k = 1;
  int all = 0;
  const ClaimResults results = try_claims(claims, [&](int, int runs) { all = runs; });
  EXPECT_EQ(all, 6) << "2 seeds of the shared run and of 2 others";
  EXPECT_EQ(results.results[0].values, results.results[1].values);
}
