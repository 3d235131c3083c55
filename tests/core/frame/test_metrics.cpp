#include <gtest/gtest.h>

#include <cstring>
#include <ranges>
#include <set>
#include <string>
#include <string_view>

#include "core/config/config_field.h"
#include "core/frame/figures.h"
#include "core/frame/metrics.h"

namespace moescope {
namespace {

std::vector<MetricInfo> all_metrics() {
  std::vector<MetricInfo> all;
  for (int m = 0; m < kNumMetrics; ++m) all.push_back(metric_info(static_cast<Metric>(m)));
  for (const MetricInfo& info : kQuantMetrics) all.push_back(info);
  for (const MetricInfo& info : kArrayMetrics) all.push_back(info);
  return all;
}

TEST(Metrics, EveryOneIsExplained) {
  std::set<std::string> keys;
  for (const MetricInfo& info : all_metrics()) {
    EXPECT_TRUE(keys.insert(info.key).second) << info.key << " twice";
    for (const char* text : {info.name, info.formula, info.good, info.bad, info.source}) {
      EXPECT_GT(std::strlen(text), 0u) << info.key;
    }
    for (const auto& part : std::views::split(std::string_view(info.knobs), std::string_view(", "))) {
      const std::string knob(part.begin(), part.end());
      EXPECT_TRUE(knob == "model sizes" || find_field(knob)) << info.key << ": " << knob;
    }
    EXPECT_EQ(find_metric(info.key)->name, info.name);
  }
  EXPECT_EQ(find_metric("no_such_metric"), nullptr);
  EXPECT_STREQ(provenance_name(Provenance::modelled), "modelled");
}

TEST(Metrics, TablesFollowTheFields) {
  EXPECT_STREQ(metric_info(Metric::ce_loss).key, "ce_loss");
  EXPECT_STREQ(metric_info(Metric::step_ms).key, "step_ms");
  for (std::size_t i = 0; i < kFrameFigures.size(); ++i) {
    EXPECT_STREQ(metric_info(static_cast<Metric>(i)).key, kFrameFigures[i].column);
  }
  for (std::size_t i = 0; i < kRouterFigures.size(); ++i) {
    const std::string key = metric_info(static_cast<Metric>(static_cast<std::size_t>(Metric::max_vio) + i)).key;
    EXPECT_TRUE(key == kRouterFigures[i].column || key == std::string("router_") + kRouterFigures[i].column) << key;
  }
  for (std::size_t i = 0; i < kQuantFigures.size(); ++i) EXPECT_STREQ(kQuantMetrics[i].key, kQuantFigures[i].column);
}

}  // namespace
}  // namespace moescope
