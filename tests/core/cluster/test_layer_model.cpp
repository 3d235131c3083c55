#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "core/cluster/hardware.h"
#include "core/cluster/layer_model.h"
#include "core/files/assets.h"

namespace moescope {
namespace {

using Json = nlohmann::json;

constexpr const char* kFiles[] = {"calibration/h200x4.json", "calibration/h200x8.json"};
// Largest errors that the model promises.
constexpr double kLayerMedian = 0.10, kLayerWorst = 0.20, kCommMedian = 0.15;

Json file(const char* name) {
  return Json::parse(asset(name));
}

CalibrationReport report_of(const Json& json, double memory_GBps = 4300) {
  return compare_with_measured(LayerModel(parse_calibration(json.dump(), "file.json"), memory_GBps));
}

void expect_promises(const CalibrationReport& report, const std::string& which) {
  EXPECT_LE(report.layer.median, kLayerMedian) << which;
  EXPECT_LE(report.layer.worst, kLayerWorst) << which;
  EXPECT_LE(report.comm.median, kCommMedian) << which;
}

void each_time(Json& json, const std::vector<const char*>& lists, const std::function<double(double)>& change) {
  for (const char* list : lists) {
    if (!json.contains(list)) continue;
    for (Json& row : json[list])
      for (auto& [key, value] : row.items())
        if (key.ends_with("ms")) value = change(value);
  }
}

const std::vector<const char*> kParts = {"all_to_all_uniform", "all_to_all_hot_rank", "deep_ep", "grouped_gemm"};

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(LayerModel, KeepsItsPromisesOnBothMeasuredHosts) {
  const CalibrationReport four = report_of(file(kFiles[0])), eight = report_of(file(kFiles[1]));
  expect_promises(four, kFiles[0]);
  expect_promises(eight, kFiles[1]);
  EXPECT_EQ(four.layer.count, 8);
  EXPECT_EQ(eight.layer.count, 24);
  EXPECT_EQ(eight.experts.count, 12);
}

TEST(LayerModel, NeverLooksAtTheTimesOfLayers) {
  for (const char* name : kFiles) {
    Json changed = file(name);
    each_time(changed, {"ep_layer"}, [](double ms) { return 3 * ms + 7; });
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
    Json slow = file(name);
    each_time(slow, kParts, [](double ms) { return 2 * ms; });
    const CalibrationReport before = report_of(file(name)), after = report_of(slow, 2150);
    for (std::size_t i = 0; i < before.rows.size(); ++i)
      EXPECT_NEAR(after.rows[i].predicted.layer_ms() / before.rows[i].predicted.layer_ms(), 2, 1e-9);
  }
}

TEST(LayerModel, KeepsItsPromisesUnderMeasurementNoise) {
  std::mt19937 rng(3);
  std::uniform_real_distribution<double> noise(0.95, 1.05);
  for (const char* name : kFiles) {
    Json noisy = file(name);
    each_time(noisy, kParts, [&](double ms) { return ms * noise(rng); });
    expect_promises(report_of(noisy), name);
  }
}

// Without points in the middle and at the upper end, a model that memorized the points would fail.
TEST(LayerModel, KeepsItsPromisesWithFewerPoints) {
  const auto without = [](const char* name, const char* list, const std::function<bool(const Json&)>& leave_out) {
    Json json = file(name);
    Json remaining = Json::array();
    for (const Json& row : json[list])
      if (!leave_out(row)) remaining.push_back(row);
    EXPECT_LT(remaining.size(), json[list].size());
    json[list] = remaining;
    expect_promises(report_of(json), std::string(name) + " without some of " + list);
  };
  for (const char* name : kFiles) {
    without(name, "all_to_all_uniform", [](const Json& row) { return row["bytes_per_rank"] == 268435456; });
    without(name, "grouped_gemm", [](const Json& row) { return row["tokens"] >= 65536; });
    without(name, "grouped_gemm", [](const Json& row) { return row["skew"] > 0; });
  }
  without(kFiles[1], "deep_ep", [](const Json& row) { return row["tokens"] == 4096; });
  without(kFiles[1], "deep_ep", [](const Json& row) { return row["routing"] == "round_robin"; });
}

// With few or no points near a layer the model extrapolates between latency and bandwidth, and its errors grow little.
TEST(LayerModel, GuessesWhereAFileHasHardlyAnything) {
  const auto report = [](const std::function<void(Json&)>& change) {
    Json json = file(kFiles[1]);
    change(json);
    return report_of(json);
  };
  const auto keep = [](Json& list, const std::function<bool(const Json&)>& is_wanted) {
    Json remaining = Json::array();
    for (const Json& row : list)
      if (is_wanted(row)) remaining.push_back(row);
    ASSERT_FALSE(remaining.empty());
    list = remaining;
  };
  for (const int dim : {2048, 7168}) {
    const auto one_dim =
        report([&](Json& json) { keep(json["deep_ep"], [&](const Json& row) { return row["D"] == dim; }); });
    EXPECT_EQ(one_dim.layer.count, 24);
    expect_promises(one_dim, "DeepEP at one D");
  }
  expect_promises(report([&](Json& json) { json["all_to_all_uniform"] = {json["all_to_all_uniform"].back()}; }),
                  "one size of all-to-all");
  const auto no_layout = report([](Json& json) {
    for (Json& row : json["deep_ep"]) row.erase("layout_ms");
  });
  EXPECT_EQ(no_layout.layer.count, 24);
  expect_promises(no_layout, "no layout");
  const auto other_names = report([](Json& json) {
    for (Json& row : json["ep_layer"]) row["model"] = "mine";
  });
  EXPECT_EQ(other_names.layer.count, 24) << "found by D and H";
  const auto only_names = report([](Json& json) {
    for (Json& row : json["ep_layer"])
      for (const char* key : {"tokens_per_expert", "rank_max_over_mean", "expert_max_over_mean"}) row.erase(key);
  });
  EXPECT_LE(only_names.layer.median, kLayerMedian) << "Zipf routings by their exponent";
  EXPECT_LE(only_names.layer.worst, 0.25);
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

TEST(LayerModel, SaysWhatIsMissingAndGoesOn) {
  Json json = file(kFiles[1]);
  json.erase("deep_ep");
  for (Json& row : json["grouped_gemm"]) row.erase("bf16_wgrad_ms");
  for (Json& row : json["ep_layer"])
    for (const char* key : {"D", "H", "E", "top_k", "tokens_per_expert", "copies_per_token_deep_ep"}) row.erase(key);
  const CalibrationReport report = report_of(json);
  const std::string notes = joined(report.notes);
  for (const char* note : {"deep_ep: not in the file", "bf16_wgrad_ms take the forward time", "has no top_k",
                           "take the fullest rank from rank_max_over_mean", "copies_per_token_deep_ep"})
    EXPECT_NE(notes.find(note), std::string::npos) << note << " in\n" << notes;
  EXPECT_EQ(report.layer.count, 12);  // layers with the standard all-to-all
  for (const LayerComparison& row : report.rows)
    EXPECT_EQ(std::isnan(row.predicted.layer_ms()), row.all_to_all == AllToAll::deep_ep);

  json.erase("grouped_gemm");
  json.erase("all_to_all_uniform");
  const CalibrationReport nothing = report_of(json);
  EXPECT_EQ(nothing.layer.count, 0);
  EXPECT_TRUE(std::isnan(nothing.layer.median));
}

TEST(LayerModel, InfersGroupsAndExpertsThatAFileDoesNotSay) {
  std::vector<std::string> notes;
  const LayerModel model(parse_calibration(asset(kFiles[0]), "f"), 4300);
  ClusterRouting routing;
  routing.tokens_per_rank = 4096;
  EXPECT_EQ(model.complete({"671B_slice"}, routing, notes).n_experts, 32);
  EXPECT_EQ(model.complete({"16B"}, routing, notes).n_experts, 64);
  EXPECT_THROW(model.complete({"unheard-of"}, routing, notes), std::runtime_error);
}

TEST(Calibration, NamesThePlaceOfAMistake) {
  struct Case {
    const char* pointer;
    Json value;
    const char* message;
  };
  for (const Case& c :
       {Case{"/world", 0, "world"}, Case{"/world", "eight", "world: is string"},
        Case{"/deep_ep", 5, "deep_ep: is number"},
        Case{"/deep_ep/3/combine_ms", "fast", "deep_ep[3].combine_ms: is string"},
        Case{"/deep_ep/3/combine_ms", -1, "deep_ep[3].combine_ms: is -1"},
        Case{"/grouped_gemm/0", "x", "grouped_gemm[0]: is string"},
        Case{"/grouped_gemm/0/groups", 2.5, "grouped_gemm[0].groups"},
        Case{"/ep_layer/1/tokens_per_expert", Json{1, 2, 3}, "has 3 experts"},
        Case{"/ep_layer/1/tokens_per_expert/0", -4, "holds -4"}, Case{"/world", 4, "(world = 8 would fit)"},
        Case{"/world", 7, "do not lie evenly on world = 7"},
        Case{"/ep_layer/2/tokens_per_rank", 100, "one of them is wrong"},
        Case{"/ep_layer/4/rank_max_over_mean", 1.1, "tokens_per_expert over world = 8 ranks gives 1.449"},
        Case{"/ep_layer/4/rank_max_over_mean", 9, "more than world = 8 ranks can have"},
        Case{"/all_to_all_uniform/0/ms", 0, "all_to_all_uniform[0].ms"}}) {
    Json json = file(kFiles[1]);
    json[Json::json_pointer(c.pointer)] = c.value;
    try {
      parse_calibration(json.dump(), "cal.json");
      ADD_FAILURE() << c.pointer << " was taken";
    } catch (const std::runtime_error& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.rfind("cal.json: ", 0), 0u) << text;
      EXPECT_NE(text.find(c.message), std::string::npos) << text;
    }
  }
  for (const char* text : {"", "{", "[]", "7", "{\"world\": 8, \"deep_ep\": [1e999]}"})
    EXPECT_THROW(parse_calibration(text, "cal.json"), std::runtime_error) << text;
  EXPECT_THROW(read_calibration("/nowhere/cal.json"), std::runtime_error);
}

}  // namespace
}  // namespace moescope
