#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/files/text/report.h"

namespace moescope {
namespace {

ValueTable effects() {
  ValueTable table({{.name = "operand", .key = "operand"},
                    {.name = "gradient error", .unit = "share", .key = "gradient_error", .format = ".1f"},
                    {.name = "loss", .unit = "nats/token", .key = "change.loss", .format = "+.2e"},
                    {.key = "layer"},
                    {.name = "recipe"}});
  table.add("x", 0.125, 1e-3, 1, "mxfp4");
  table.add("dY", 0.0625, kNoValue, std::optional<int>(), "é");
  return table;
}

TEST(Report, TextAlignsColumnsAndHasSharesInPercent) {
  EXPECT_EQ(to_text(effects()),
            "operand  gradient error, %  loss, nats/token  recipe\n"
            "x                     12.5         +1.00e-03  mxfp4\n"
            "dY                     6.2                 -  é\n");
}

TEST(Report, TextLeavesOutColumnsWithoutValues) {
  ValueTable table({{"run"}, {"SQNR", "dB"}, {"steps"}, {"loss"}});
  table.add("A", std::nan(""), 4, 1234567.0);
  EXPECT_EQ(to_text(table), "run  steps       loss\nA        4  1.235e+06\n");
  EXPECT_EQ(to_text(ValueTable()), "");
}

TEST(Report, TextIsSafeForATerminal) {
  ValueTable table({ValueColumn{"tensor"}});
  table.add("a\x1b[2J");
  EXPECT_EQ(to_text(table), "tensor\na\\x1b[2J\n");
}

TEST(Report, JsonHasKeysAndUnscaledValues) {
  EXPECT_EQ(json_rows(effects()).dump(),
            R"([{"operand":"x","gradient_error":0.125,"change":{"loss":0.001},"layer":1},)"
            R"({"operand":"dY","gradient_error":0.0625,"change":{"loss":null},"layer":null}])");
}

TEST(Report, TextAndJsonHaveTheSameValues) {
  Report report;
  report.value({.key = "moescope_scan"}, table_value(1));
  report.value({.name = "cross-entropy", .unit = "nats/token", .key = "loss.fp32", .format = ".3f"}, 5.25);
  report.value({.name = "finite", .key = "loss.finite"}, true);
  report.value({.name = "crest", .key = "crest"}, std::numeric_limits<double>::infinity());
  report.sentence("One at a time:\x07");
  ValueTable operands({ValueColumn{.name = "operand", .key = "name"}});
  operands.add("W");
  report.table("operands", operands);
  report.value({.name = "SQNR", .unit = "dB"}, std::nan(""));
  report.value({.key = "steps.0"}, 1);
  report.value({.key = "steps.1"}, 2);
  report.json("layers", std::vector{3});
  EXPECT_EQ(report.text(),
            "cross-entropy: 5.250 nats/token\nfinite: yes\ncrest: inf\nOne at a time:\\x07\noperand\nW\nSQNR: -\n");
  EXPECT_EQ(
      Report::Json::parse(report.json_text()).dump(),
      R"({"moescope_scan":1,"loss":{"fp32":5.25,"finite":true},"crest":null,"operands":[{"name":"W"}],"steps":[1,2],"layers":[3]})");
  EXPECT_EQ(report.csv(), "operand\nW\n");
  EXPECT_EQ(to_csv(effects()),
            "operand,gradient error [share],loss [nats/token],recipe\nx,0.125,0.001,mxfp4\ndY,0.0625,,é\n");
}

TEST(Report, PartsAreObjectsAndTheirTextsFollow) {
  Report bytes, finding, run;
  bytes.value({.key = "121"}, 4);
  finding.value({.name = "kind", .key = "kind"}, "dead");
  run.sentence("run A");
  run.parts("findings", std::vector{finding, finding});
  run.parts("notes", {});
  run.part("blocks", bytes);
  run.part("none", {});
  run.sentence("end");
  EXPECT_EQ(run.text(), "run A\nkind: dead\nkind: dead\nend\n");
  EXPECT_EQ(run.json_text(-1),
            R"({"findings":[{"kind":"dead"},{"kind":"dead"}],"notes":[],"blocks":{"121":4},"none":{}})"
            "\n");
}

TEST(Report, RowsHaveMembersThatAreNoCells) {
  ValueTable figures({ValueColumn{.name = "figure", .key = "key"}});
  figures.add("max_vio");
  Report values, report;
  values.json("values", std::vector{1, 2});
  report.rows("figures", figures, std::vector{values});
  EXPECT_EQ(report.json_text(-1), "{\"figures\":[{\"key\":\"max_vio\",\"values\":[1,2]}]}\n");
  EXPECT_EQ(report.text() + report.csv(), "");
}

TEST(Report, JsonIsAsciiAndValidForAnyBytes) {
  Report report;
  report.value({.name = "run", .key = "run"}, "\xff\x9b é");
  const std::string text = report.json_text();
  EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return c > 0; }));
  EXPECT_EQ(Report::Json::parse(text)["run"].get<std::string>(), "\xef\xbf\xbd\xef\xbf\xbd é");
}

}  // namespace
}  // namespace moescope
