#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <sstream>
#include <string>

#include "core/cluster/hardware.h"
#include "core/cluster/layer_model.h"
#include "core/files/assets.h"
#include "core/files/text/toml_section.h"

namespace moescope {
namespace {

constexpr const char* kFiles[] = {"calibration/h200x4.toml", "calibration/h200x8.toml"};
// Largest errors that the model promises.
constexpr double kLayerMedian = 0.10, kLayerWorst = 0.20, kCommMedian = 0.15;

toml::array& rows_of(toml::table& measured, const char* list) {
  return *measured[list].as_array();
}

// Returns a file, whose forward times stand for those of both backward GEMMs if it does not have them.
toml::table file(const char* name) {
  toml::table measured = parse_toml(asset(name), name);
  for (toml::node& entry : rows_of(measured, "grouped_gemm")) {
    toml::table& row = *entry.as_table();
    for (const char* key : {"bf16_dgrad_ms", "bf16_wgrad_ms"}) row.insert(key, row["bf16_ms"].value_or(0.0));
  }
  return measured;
}

// Absolute relative errors over the rows with both values.
struct ErrorSummary {
  std::size_t count;
  double median, worst;
};

ErrorSummary summarize(std::vector<double> errors) {
  std::ranges::sort(errors);
  const std::size_t n = errors.size();
  return {n, (errors[(n - 1) / 2] + errors[n / 2]) / 2, errors.back()};
}

struct CalibrationReport {
  std::vector<LayerComparison> rows;
  ErrorSummary layer, comm, experts;
};

CalibrationReport report_of(const toml::table& measured, double memory_GBps = 4300) {
  std::ostringstream text;
  text << measured;
  CalibrationReport report;
  const LayerModel model(parse_calibration(text.str(), "changed.toml"), memory_GBps);
  report.rows = compare_with_measured(model);
  std::vector<double> layer, comm, experts;
  for (const LayerComparison& row : report.rows) {
    layer.push_back(std::fabs(row.predicted.layer_ms() / row.measured_layer_ms - 1));
    comm.push_back(std::fabs(row.predicted.comm_ms / row.measured_comm_ms - 1));
  }
  for (const auto& [shape, routing, times] : model.calibration().layers)
    experts.push_back(std::fabs(model.predict(shape, routing, AllToAll::standard).experts_ms / times.experts_ms - 1));
  report.layer = summarize(layer);
  report.comm = summarize(comm);
  report.experts = summarize(experts);
  return report;
}

void expect_promises(const CalibrationReport& report, const std::string& which) {
  EXPECT_LE(report.layer.median, kLayerMedian) << which;
  EXPECT_LE(report.layer.worst, kLayerWorst) << which;
  EXPECT_LE(report.comm.median, kCommMedian) << which;
}

void change_times(toml::table& measured, const std::vector<const char*>& lists,
                  const std::function<double(double)>& change) {
  for (const char* list : lists) {
    if (!measured.contains(list)) continue;
    for (toml::node& row : rows_of(measured, list))
      for (auto&& [key, value] : *row.as_table())
        if (key.str().ends_with("ms")) *value.as_floating_point() = change(**value.as_floating_point());
  }
}

const std::vector<const char*> kParts = {"all_to_all_uniform", "all_to_all_hot_rank", "deep_ep", "grouped_gemm"};

TEST(LayerModel, KeepsItsPromisesOnBothMeasuredHosts) {
  const CalibrationReport four = report_of(file(kFiles[0])), eight = report_of(file(kFiles[1]));
  expect_promises(four, kFiles[0]);
  expect_promises(eight, kFiles[1]);
  EXPECT_EQ(four.layer.count, 8u);
  EXPECT_EQ(eight.layer.count, 24u);
  EXPECT_EQ(eight.experts.count, 12u);
}

TEST(LayerModel, ManualHasTheErrorsOfBothHosts) {
  std::ifstream page(std::string(MOESCOPE_TEST_DATA) + "/../docs/cluster-model.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  const CalibrationReport four = report_of(file(kFiles[0])), eight = report_of(file(kFiles[1]));
  for (const auto& [part, errors] : {std::pair{"whole layer", &CalibrationReport::layer},
                                     {"communication", &CalibrationReport::comm},
                                     {"experts", &CalibrationReport::experts}}) {
    const auto cell = [](const ErrorSummary& e) {
      return fmt::format("{:.1f} %, {:.1f} %", 100 * e.median, 100 * e.worst);
    };
    const std::string row = fmt::format("| {} | {} | {} |", part, cell(four.*errors), cell(eight.*errors));
    EXPECT_NE(text.find(row), std::string::npos) << row;
  }
}

TEST(LayerModel, NeverLooksAtTheTimesOfLayers) {
  for (const char* name : kFiles) {
    toml::table changed = file(name);
    change_times(changed, {"ep_layer"}, [](double ms) { return 3 * ms + 7; });
    const CalibrationReport before = report_of(file(name)), after = report_of(changed);
    ASSERT_EQ(before.rows.size(), after.rows.size());
    for (std::size_t i = 0; i < before.rows.size(); ++i) {
      EXPECT_EQ(before.rows[i].predicted.comm_ms, after.rows[i].predicted.comm_ms);
      EXPECT_EQ(before.rows[i].predicted.experts_ms, after.rows[i].predicted.experts_ms);
      EXPECT_EQ(before.rows[i].predicted.rest_ms, after.rows[i].predicted.rest_ms);
    }
  }
}

// A GPU of half the speed in everything has layers of twice the time: no time is a constant of the program.
TEST(LayerModel, ScalesWithItsParts) {
  for (const char* name : kFiles) {
    toml::table slow = file(name);
    change_times(slow, kParts, [](double ms) { return 2 * ms; });
    const CalibrationReport before = report_of(file(name)), after = report_of(slow, 2150);
    for (std::size_t i = 0; i < before.rows.size(); ++i)
      EXPECT_NEAR(after.rows[i].predicted.layer_ms() / before.rows[i].predicted.layer_ms(), 2, 1e-9);
  }
}

TEST(LayerModel, KeepsItsPromisesUnderMeasurementNoise) {
  std::mt19937 rng(3);
  std::uniform_real_distribution<double> noise(0.95, 1.05);
  for (const char* name : kFiles) {
    toml::table noisy = file(name);
    change_times(noisy, kParts, [&](double ms) { return ms * noise(rng); });
    expect_promises(report_of(noisy), name);
  }
}

// Without points in the middle and at the upper end, a model that memorized the points would fail.
TEST(LayerModel, KeepsItsPromisesWithFewerPoints) {
  const auto without = [](const char* name, const char* list,
                          const std::function<bool(const toml::table&)>& leave_out) {
    toml::table measured = file(name);
    toml::array remaining;
    for (const toml::node& row : rows_of(measured, list))
      if (!leave_out(*row.as_table())) remaining.push_back(row);
    EXPECT_LT(remaining.size(), rows_of(measured, list).size());
    measured.insert_or_assign(list, remaining);
    expect_promises(report_of(measured), std::string(name) + " without some of " + list);
  };
  for (const char* name : kFiles) {
    without(name, "all_to_all_uniform", [](const toml::table& row) { return row["bytes_per_rank"] == 268435456; });
    without(name, "grouped_gemm", [](const toml::table& row) { return row["tokens"].value_or(0) >= 65536; });
    without(name, "grouped_gemm", [](const toml::table& row) { return row["skew"].value_or(0.0) > 0; });
  }
  without(kFiles[1], "deep_ep", [](const toml::table& row) { return row["tokens"] == 4096; });
  without(kFiles[1], "deep_ep", [](const toml::table& row) { return row["routing"] == "round_robin"; });
}

TEST(LayerModel, FindsWhatTheMeasurementsFound) {
  const CalibrationReport report = report_of(file(kFiles[1]));
  const auto ratio = [&](const std::string& model, const std::string& routing) {
    double standard = 0, deep_ep = 0;
    for (const LayerComparison& row : report.rows)
      if (row.shape.model == model && row.routing.label == routing)
        (row.all_to_all == AllToAll::standard ? standard : deep_ep) = row.predicted.layer_ms();
    return standard / deep_ep;
  };
  EXPECT_NEAR(ratio("671B", "round_robin"), 1.25, 0.05);
  EXPECT_NEAR(ratio("671B", "uniform"), 1.08, 0.05);
  EXPECT_GT(ratio("671B", "round_robin"), ratio("671B", "grouped:4"));
  EXPECT_GT(ratio("671B", "grouped:4"), ratio("671B", "uniform"));
  EXPECT_LT(ratio("16B", "uniform"), 1);
}

TEST(Calibration, FigureThatIsMissingOrWrongIsNamedWithItsLine) {
  const auto refusal = [](const std::string& text) {
    try {
      parse_calibration(text, "node.toml");
    } catch (const std::runtime_error& problem) {
      return std::string(problem.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal("world = 4"), "none");
  EXPECT_EQ(refusal("world = 4\nall_to_all_uniform = [\n  {bytes_per_rank = 1},\n]"),
            "node.toml:3: all_to_all_uniform 1.ms: is missing");
  EXPECT_EQ(refusal("world = 4\n[[all_to_all_uniform]]\nbytes_per_rank = 1\nms = \"7\""),
            "node.toml:4: all_to_all_uniform 1.ms: must be a number from 0 to 1000000000000000");
}

}  // namespace
}  // namespace moescope
