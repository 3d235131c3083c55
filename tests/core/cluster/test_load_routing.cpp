#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>

#include "core/cluster/ranks/routing_patterns.h"

namespace moescope {
namespace {

std::vector<double> utilisation(const std::vector<std::int32_t>& topk, int n_experts) {
  std::vector<double> u(n_experts);
  for (const std::int32_t expert : topk) u.at(expert) += static_cast<double>(n_experts) / topk.size();
  return u;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST(StretchLoad, KeepsTheDistribution) {
  const std::vector<std::uint32_t> counts = {10, 400, 100, 90};
  std::vector<double> stretched = stretch_load(counts, 4);
  std::sort(stretched.begin(), stretched.end());
  EXPECT_NEAR(stretched[0], 10 / 150.0, 1e-12);
  EXPECT_NEAR(stretched[3], 400 / 150.0, 1e-12);

  const std::vector<double> more = stretch_load(counts, 256);
  EXPECT_NEAR(mean_of(more), 1, 1e-12);
  EXPECT_NEAR(*std::max_element(more.begin(), more.end()), 400 / 150.0, 0.03);
  EXPECT_NEAR(*std::min_element(more.begin(), more.end()), 10 / 150.0, 0.03);
  EXPECT_FALSE(std::is_sorted(more.begin(), more.end()));
  EXPECT_NE(more, stretch_load(counts, 256, 2));
  EXPECT_EQ(stretch_load({}, 3), (std::vector<double>{1, 1, 1}));
}

TEST(LoadInOrder, RanksKeepTheirLoad) {
  const std::vector<std::uint32_t> counts = {10, 400, 100, 90};
  EXPECT_EQ(load_in_order(counts, 4), (std::vector<double>{10 / 150.0, 400 / 150.0, 100 / 150.0, 90 / 150.0}));
  const std::vector<double> more = load_in_order(counts, 12);
  for (int e = 0; e < 12; ++e) EXPECT_NEAR(more[e], counts[e / 3] / 150.0, 1e-12) << e;
  const std::vector<double> fewer = load_in_order(counts, 3);  // four thirds of an expert each
  EXPECT_NEAR(fewer[0], (10 + 400 / 3.0) / 200, 1e-12);
  EXPECT_NEAR(fewer[1], (400 * 2 / 3.0 + 100 * 2 / 3.0) / 200, 1e-12);
  EXPECT_EQ(load_in_order({}, 3), (std::vector<double>{1, 1, 1}));
}

TEST(RouteByLoad, MeetsTheLoadExactly) {
  const std::vector<std::uint32_t> counts = {5, 10, 20, 40, 80, 40, 20, 10};
  const std::vector<double> load = stretch_load(counts, 64);
  for (const int limited : {0, 2, 4}) {
    const std::vector<std::int32_t> topk = route_by_load(load, 200000, 4, 8, limited);
    const std::vector<double> u = utilisation(topk, 64);
    for (int e = 0; e < 64; ++e) EXPECT_NEAR(u[e], load[e], 0.03 + 0.02 * load[e]) << e << " of " << limited;
  }
}

TEST(RouteByLoad, ChoosesDistinctExpertsInsideTheGroups) {
  const std::vector<double> load = stretch_load(std::vector<std::uint32_t>{1, 1, 50, 2}, 32);
  const std::vector<std::int32_t> topk = route_by_load(load, 5000, 6, 8, 3);
  for (std::size_t t = 0; t < 5000; ++t) {
    std::set<int> experts, groups;
    for (int k = 0; k < 6; ++k) {
      experts.insert(topk[t * 6 + k]);
      groups.insert(topk[t * 6 + k] / 4);
    }
    EXPECT_EQ(experts.size(), 6u) << t;
    EXPECT_LE(groups.size(), 3u) << t;
  }
}

TEST(RouteByLoad, AnExpertCannotTakeMoreThanEveryToken) {
  std::vector<double> load(16, 0.0);
  load[3] = 16;
  const std::vector<double> u = utilisation(route_by_load(load, 4000, 4), 16);
  EXPECT_NEAR(u[3], 4, 1e-9);  // each token once: E / K
  EXPECT_NEAR(u[0], 0.8, 0.1);
}

TEST(RouteByLoad, IsAFunctionOfItsArguments) {
  const std::vector<double> load(64, 1.0);
  EXPECT_EQ(route_by_load(load, 500, 8, 8, 4, 7), route_by_load(load, 500, 8, 8, 4, 7));
  EXPECT_NE(route_by_load(load, 500, 8, 8, 4, 7), route_by_load(load, 500, 8, 8, 4, 8));
}

TEST(RouteByLoad, RefusesWhatCannotBe) {
  const std::vector<double> load(64, 1.0);
  EXPECT_THROW(route_by_load(load, 1, 65), std::runtime_error);
  EXPECT_THROW(route_by_load(load, 1, 8, 7, 2), std::runtime_error);
  EXPECT_THROW(route_by_load(load, 1, 9, 8, 1), std::runtime_error);
  EXPECT_THROW(route_by_load(load, 1, 8, 8, 9), std::runtime_error);
}

}  // namespace
}  // namespace moescope
