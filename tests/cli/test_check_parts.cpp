// The parts of `moescope-cli check` that need no log: what --on-finding runs, and the report of --against.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <sstream>

#include "app/cli/check/check_parts.h"
#include "tests/support/problem_of.h"
#include "tests/support/says.h"
#include "tests/support/test_folder.h"

namespace moescope {
namespace {

std::string contents(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(FindingCommand, InputComesOnStandardInputAlone) {
  const TestFolder folder("finding_command");
  const std::string input = "$(touch " + folder / "hacked" + ")'\n";
  {
    FindingCommand command("cat >> '" + folder / "told" + "'");
    command.start(input);
  }  // waits for it
  EXPECT_EQ(contents(folder / "told"), input);
  EXPECT_FALSE(std::filesystem::exists(folder / "hacked"));
}

TEST(FindingCommand, AStatusThatIsNot0IsPrinted) {
  testing::internal::CaptureStderr();
  {
    FindingCommand command("echo out; exit 3");
    command.start(std::string(1 << 20, 'x'));  // which the command does not read
  }
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(says(printed, "out\n")) << printed;
  EXPECT_TRUE(says(printed, "--on-finding: echo out; exit 3 ended with status 3")) << printed;
}

TEST(GateCheck, VerdictsAreNamedByWords) {
  EXPECT_EQ(gate_verdicts("same"), std::vector{GateVerdict::same});
  EXPECT_EQ(gate_verdicts("regressed,too-early"), (std::vector{GateVerdict::regressed, GateVerdict::too_early}));
  EXPECT_TRUE(says(problem_of([] { gate_verdicts("same,severe"); }), "\"severe\" is not a verdict"));
  EXPECT_TRUE(says(problem_of([] { gate_verdicts(""); }), "allowed: regressed"));
}

GateResult failed_gate() {
  constexpr MetricInfo kLoss{"ce_loss", "Training loss", "nats/token", "", "", "", "", ""};
  static const std::array<MetricInfo, 2> infos = {kLoss, {"grad_norm", "Gradient norm", "", "", "", "", "", ""}};
  GateResult result;
  result.failed = true;
  GateReport& report = result.report;
  report.name = "new";
  report.good_names = {"a", "b"};
  report.verdict = GateVerdict::regressed;
  for (const MetricInfo& info : infos) {
    GateSeries& series = report.series.emplace_back();
    series.figure.info = &info;
    series.figure.worst = Worst::largest;
    series.limit = 4;
  }
  report.exits.push_back({.series = 0, .times = {{100, 120}}, .value = 3, .good = 2, .half_width = 0.5f, .z = 8});
  report.not_in_all = {"lr"};
  return result;
}

TEST(GateCheck, AFailedGateHasACaseForItsVerdictAndForEachFigure) {
  const std::vector<CheckCase> cases = gate_cases(failed_gate());
  ASSERT_EQ(cases.size(), 4u);
  EXPECT_EQ(cases[0].name, "as good as a, b");
  EXPECT_EQ(cases[0].outcome, CheckOutcome::failed);
  EXPECT_TRUE(says(cases[1].name, "Training loss")) << cases[1].name;
  EXPECT_EQ(cases[1].outcome, CheckOutcome::failed);
  EXPECT_EQ(cases[2].outcome, CheckOutcome::passed);
  EXPECT_EQ(cases[3].outcome, CheckOutcome::not_checked);
  GateResult noted = failed_gate();
  noted.failed = false;
  EXPECT_EQ(gate_cases(noted)[1].outcome, CheckOutcome::noted);
}

TEST(GateCheck, TheReportHasTheVerdictAndTheExits) {
  const Report report = report_of(failed_gate());
  EXPECT_TRUE(says(report.text(), "new against a, b")) << report.text();
  EXPECT_TRUE(says(report.text(), "WORSE   ")) << report.text();
  for (const char* part : {"\"verdict\": \"regressed\"", "\"failed\": true", "\"figure\": \"ce_loss\"", "\"lr\""})
    EXPECT_TRUE(says(report.json_text(), part)) << part;
}

}  // namespace
}  // namespace moescope
