#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/cluster/layer_model.h"
#include "core/cluster/published_runs.h"
#include "core/cluster/ranks/routing_patterns.h"
#include "core/files/text/words.h"
#include "tests/support/published_flops.h"

namespace moescope {
namespace {

// The two runs that check the model; nothing is fitted to them. Source: torchtitan pull request 2107: 512 H100s, TP 1,
// PP 8 (Interleaved1F1B), EP 32, 16 sequences of 4096, full recompute.
constexpr double kH100Standard = 346, kH100DeepEp = 579;  // tokens/s per GPU

StepConfig published_h100_config(AllToAll kind) {
  StepConfig config = published_b200_config(false, kind);
  config.hardware = hardware_profile("h100");
  config.gpus = 512;
  config.tp = 1;
  config.pp = 8;
  config.virtual_stages = 2;  // torchtitan's default for Interleaved1F1B
  config.microbatches = 16;
  config.seq = 4096;
  return config;
}

// Returns docs/cluster-model.md in one line.
std::string manual_page() {
  std::ifstream file(std::string(MOESCOPE_TEST_DATA) + "/../docs/cluster-model.md");
  std::string page{std::istreambuf_iterator<char>(file), {}};
  std::ranges::replace(page, '\n', ' ');
  return page;
}

// Returns the network rate in GB/s at which the model's times of the two H100 runs differ by the published amount.
double implied_network_GBps(Hypothesis hypothesis) {
  StepParameters p = fit_to_published(hypothesis);
  const StepConfig standard = published_h100_config(AllToAll::standard);
  const StepTime deep_ep = step_time(published_h100_config(AllToAll::deep_ep), p);
  const double deep_ep_ms = deep_ep.part_ms("all-to-all") + deep_ep.part_ms("DeepEP overhead");
  double rate = 0;
  for (int round = 0; round < 30; ++round) {  // the pipeline's stretch depends slightly on the rate
    const StepTime time = step_time(standard, p);
    rate = time.network_bytes / 1e6 /
           (1e3 / kH100Standard / time.stretch - 1e3 / kH100DeepEp / deep_ep.stretch + deep_ep_ms);
    p.standard_network_share = rate / standard.hardware.network.value;
  }
  return rate;
}

TEST(ModelShape, ParametersAreExact) {
  struct Case {
    const char* name;
    std::int64_t total, dense, active;
  };
  for (const Case& c :
       {Case{"debugmodel", 33014016, 23173376, 28098816}, Case{"16B", 15706484224, 858385920, 2661150208},
        Case{"236B", 235741434880, 10191590400, 21375800320}, Case{"671B", 671026404352, 14456871936, 37552282624}}) {
    const ParameterCounts counts = parameter_counts(model_shape(c.name));
    EXPECT_EQ(counts.total, c.total) << c.name;
    EXPECT_EQ(counts.dense, c.dense) << c.name;
    EXPECT_EQ(counts.active, c.active) << c.name;
  }
  EXPECT_THROW(model_shape("672B"), std::runtime_error);
}

TEST(ModelShape, FlopsOfTraining) {
  EXPECT_NEAR(published_flops_per_token(model_shape("671B"), 8192) / 1e9, 342.56, 0.005);
  EXPECT_NEAR(published_flops_per_token(model_shape("671B"), 4096) / 1e9, 281.2, 0.05);
  EXPECT_NEAR(published_flops_per_token(model_shape("16B"), 8192) / 1e9, 21.50, 0.005);
  EXPECT_NEAR(published_flops_per_token(model_shape("16B"), 4096) / 1e9, 18.1, 0.05);
  const ForwardFlops flops = forward_flops(model_shape("671B"), 8192);
  EXPECT_NEAR(flops.routed_experts / 1e9, 40.87, 0.005);
  EXPECT_NEAR(flops.shared_experts / 1e9, 5.1, 0.05);
  EXPECT_NEAR(flops.attention_linears / 1e9, 22.8, 0.05);
  EXPECT_NEAR(flops.attention / 1e9, 20.5, 0.05);
}

// Rows of half the length: half of the experts' work and weights, and two projections of every token.
TEST(ModelShape, LatentExperts) {
  const ModelShape plain = model_shape("671B");
  ModelShape latent = plain;
  latent.latent_dim = plain.dim / 2;
  const ForwardFlops before = forward_flops(plain, 4096), after = forward_flops(latent, 4096);
  EXPECT_DOUBLE_EQ(after.routed_experts, before.routed_experts / 2);
  EXPECT_DOUBLE_EQ(after.shared_experts, before.shared_experts);
  EXPECT_DOUBLE_EQ(after.latent_projections, 58 * 4.0 * 7168 * 3584);
  EXPECT_EQ(before.latent_projections, 0);
  EXPECT_EQ(parameter_counts(plain).total - parameter_counts(latent).total,
            58 * (256LL * 3 * 3584 * 2048 - 2LL * 7168 * 3584));
}

TEST(Hardware, EveryNumberHasASource) {
  ASSERT_EQ(hardware_profiles().size(), 3u);
  for (const HardwareProfile& profile : hardware_profiles()) {
    for (const NamedHardwareNumber& named : hardware_numbers()) {
      const HardwareNumber& number = profile.*named.number;
      if (!named.required && number.value == 0) continue;
      EXPECT_FALSE(number.source.empty()) << profile.name << " " << named.key;
      EXPECT_FALSE(number.unit.empty()) << profile.name << " " << named.key;
      // Only the slow-down is fitted, and not to the published runs; nothing in a file was measured here.
      EXPECT_EQ(number.kind == Provenance::fitted, named.number == &HardwareProfile::sustained_gemm_slowdown);
      EXPECT_NE(number.kind, Provenance::measured_here) << profile.name << " " << named.key;
    }
    EXPECT_LT(profile.gemm_bf16.value, profile.bf16_dense.value);
    EXPECT_LT(profile.memory_copy.value, profile.memory.value);
  }
  EXPECT_EQ(hardware_profile("B200").name, "B200");
  EXPECT_EQ(hardware_profile("h200").memory_copy.value, 4300);
}

TEST(Hardware, NamesThePlaceOfAMistake) {
  const std::string described = "\nunit = 'x'\nkind = 'published'\nsource = 's'\n", good = "value = 1" + described;
  std::string without_nvlink = "name = 'a'\ngpu = 'b'\n";
  for (const NamedHardwareNumber& number : hardware_numbers())
    if (number.required && number.key != std::string("nvlink"))
      without_nvlink += "[" + std::string(number.key) + "]\n" + good;
  const std::string profile = without_nvlink + "[nvlink]\n" + good;
  EXPECT_EQ(parse_hardware(profile, "gpu.toml").memory.value, 1);
  for (const auto& [text, message] :
       {std::pair<std::string, std::string>{"name = 1", "gpu.toml:1: name: must be text in quotes"},
        {without_nvlink, "gpu.toml:1: nvlink: is missing"},
        {profile + "[warp]\n" + good, ": warp: no such key; allowed: all_to_all_latency, "},
        {profile + "[mxfp8_quantize_share]\n" + good, ": mxfp8_quantize_share: must be a share below 1"},
        {without_nvlink + "[nvlink]\nvalue = -1" + described, "nvlink.value: must be a number from 0.001 to 1"},
        {without_nvlink + "[nvlink]\nvalue = 1e-300" + described, "nvlink.value: must be a number from 0.001 to 1"},
        {without_nvlink + "[nvlink]\nvalue = 1e300" + described, "nvlink.value: must be a number from 0.001 to 1"},
        {without_nvlink + "[nvlink]\nvalue = nan" + described, "nvlink.value: must be a number from 0.001 to 1"},
        {without_nvlink + "[nvlink]\nvalue = 1\nunit = 'x'\nkind = 'rumour'\nsource = 's'",
         "nvlink.kind: is \"rumour\"; allowed: measured, "},
        {"name = ", "gpu.toml:1: not TOML: "}}) {
    try {
      parse_hardware(text, "gpu.toml");
      ADD_FAILURE() << text;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(hardware_profile("a100"), std::runtime_error);
  EXPECT_THROW(hardware_profile("/nowhere.toml"), std::runtime_error);
}

// The smallest and the largest number that a profile may hold, one at a time and all together.
TEST(Hardware, ExtremeNumbersGiveFiniteTimes) {
  const auto expect_finite = [](const StepConfig& config, const std::string& what) {
    for (const Hypothesis hypothesis : {Hypothesis::h1, Hypothesis::h2}) {
      const StepTime time = step_time(config, fit_to_published(hypothesis));
      EXPECT_TRUE(std::isfinite(time.tokens_per_second) && time.tokens_per_second > 0) << what;
      const Band band = throughput_band(config, hypothesis);
      EXPECT_TRUE(std::isfinite(band.low) && std::isfinite(band.high)) << what;
    }
  };
  for (const double value : {1e-3, 1e9}) {
    for (const bool mxfp8 : {false, true}) {
      StepConfig all = published_b200_config(mxfp8, AllToAll::deep_ep);
      for (const NamedHardwareNumber& named : hardware_numbers()) {
        StepConfig one = published_b200_config(mxfp8, AllToAll::deep_ep);
        if (std::string_view(named.key) == "mxfp8_quantize_share" && value >= 1) continue;
        (one.hardware.*named.number).value = (all.hardware.*named.number).value = value;
        expect_finite(one, std::string(named.key) + (value < 1 ? " small" : " large"));
      }
      expect_finite(all, value < 1 ? "all small" : "all large");
    }
  }
}

TEST(StepModel, FitMeetsThePublishedRunsWithOrdinaryParameters) {
  for (const Hypothesis hypothesis : {Hypothesis::h1, Hypothesis::h2}) {
    const StepParameters fit = fit_to_published(hypothesis);
    struct Run {
      bool mxfp8;
      AllToAll all_to_all;
      double tokens_per_second;
    };
    for (const Run& run :
         {Run{false, AllToAll::standard, 651}, Run{false, AllToAll::deep_ep, 859}, Run{true, AllToAll::deep_ep, 918}}) {
      const StepTime time = step_time(published_b200_config(run.mxfp8, run.all_to_all), fit);
      EXPECT_NEAR(time.tokens_per_second, run.tokens_per_second, 1e-6);
      double sum = 0;
      for (const StepPart& part : time.parts) sum += part.ms;
      EXPECT_NEAR(sum, time.ms_per_token, 1e-12);
    }
    EXPECT_GT(fit.rest_ms, 0);
    EXPECT_LT(fit.standard_network_share, 1);  // not above line rate
  }
  // Values worked out by hand from the same figures, without the pipeline.
  EXPECT_NEAR(fit_to_published(Hypothesis::h2).standard_network_share * 50, 40.5, 1);
  EXPECT_NEAR(fit_to_published(Hypothesis::h2).mxfp8_speedup, 1.21, 0.02);
  EXPECT_NEAR(fit_to_published(Hypothesis::h1).mxfp8_speedup, 1.53, 0.04);
  EXPECT_NEAR(fit_to_published(Hypothesis::h1).standard_network_share * 50, 46, 1.5);
}

TEST(StepModel, BytesOfThePublishedRuns) {
  const StepParameters fit = fit_to_published(Hypothesis::h1);
  const StepTime standard = step_time(published_b200_config(false, AllToAll::standard), fit);
  const StepTime deep_ep = step_time(published_b200_config(false, AllToAll::deep_ep), fit);
  EXPECT_NEAR(standard.network_bytes, 29.934e6, 1e3);
  EXPECT_NEAR(deep_ep.network_bytes, 3.742e6, 1e3);
  const StepTime doubled = step_time(published_b200_config(false, AllToAll::deep_ep), fit_to_published(Hypothesis::h2));
  EXPECT_NEAR(doubled.network_bytes, 2 * deep_ep.network_bytes, 1);
  EXPECT_EQ(doubled.duplication, 2);
}

// docs/cluster-model.md has the throughput and the band of every published run under both readings.
TEST(StepModel, ManualHasTheFiguresOfThePublishedRuns) {
  const std::string page = manual_page();
  for (const Hypothesis hypothesis : {Hypothesis::h1, Hypothesis::h2}) {
    const auto speed = [&](const StepConfig& config) {
      return step_time(config, fit_to_published(hypothesis)).tokens_per_second;
    };
    for (const bool mxfp8 : {false, true})
      for (const AllToAll kind : {AllToAll::standard, AllToAll::deep_ep}) {
        const StepConfig config = published_b200_config(mxfp8, kind);
        const Band band = throughput_band(config, hypothesis);
        EXPECT_LT(band.low, band.high);
        const std::string cell = fmt::format("{:.0f} ({:.0f}-{:.0f})", speed(config), band.low, band.high);
        EXPECT_NE(page.find(cell), std::string::npos) << cell;
      }
    for (const auto& [kind, published] :
         {std::pair{AllToAll::standard, kH100Standard}, {AllToAll::deep_ep, kH100DeepEp}}) {
      const StepConfig config = published_h100_config(kind);
      const Band band = throughput_band(config, hypothesis);
      EXPECT_GE(published, band.low);
      EXPECT_LE(published, band.high);
      const std::string cell = fmt::format("{:.0f}, {:+.0f} %, inside the band {:.0f}-{:.0f}", speed(config),
                                           100 * (speed(config) / published - 1), band.low, band.high);
      EXPECT_NE(page.find(cell), std::string::npos) << cell;
    }
  }
}

// The gain by DeepEP on the H100 pair is closer to that of H2.
TEST(StepModel, H100PairIsEvidenceAgainstH1) {
  const auto gain = [](Hypothesis hypothesis) {
    const auto speed = [&](AllToAll kind) {
      return step_time(published_h100_config(kind), fit_to_published(hypothesis)).tokens_per_second;
    };
    return speed(AllToAll::deep_ep) / speed(AllToAll::standard) - 1;
  };
  const std::string row = fmt::format("| {:+.0f} % | {:+.0f} % | {:+.0f} % |", 100 * (kH100DeepEp / kH100Standard - 1),
                                      100 * gain(Hypothesis::h1), 100 * gain(Hypothesis::h2));
  EXPECT_NE(manual_page().find(row), std::string::npos) << row;
  EXPECT_NEAR(gain(Hypothesis::h1), 0.22, 0.02);
  EXPECT_NEAR(gain(Hypothesis::h2), 0.57, 0.02);
  EXPECT_NEAR(implied_network_GBps(Hypothesis::h1), 25, 1);
  EXPECT_NEAR(implied_network_GBps(Hypothesis::h2), 30, 1);
}

// The stretch of the model follows from the published schedule and the layers of its stages.
TEST(StepModel, TheSchedulesUnevenStagesAreCounted) {
  const StepParameters& fit = fit_to_published(Hypothesis::h2);
  const StepTime h100 = step_time(published_h100_config(AllToAll::standard), fit);
  const StepTime b200 = step_time(published_b200_config(false, AllToAll::standard), fit);
  // If only MoE layers took time, the factors would be 8 / 7.25 and 30 / 29; dense layers and the head reduce them.
  const auto uneven = [](const StepTime& t) { return t.part_ms("uneven stages") * t.stretch / t.ms_per_token; };
  EXPECT_GT(uneven(h100), 0.06);
  EXPECT_LT(uneven(h100), 8 / 7.25 - 1);
  EXPECT_GT(uneven(b200), 0.01);
  EXPECT_LT(uneven(b200), 30.0 / 29 - 1);
  EXPECT_GT(h100.part_ms("pipeline bubble"), 0);
  StepConfig one = published_b200_config(false, AllToAll::standard);
  one.pp = one.virtual_stages = 1;
  EXPECT_EQ(step_time(one, fit).stretch, 1);
  one.pp = 8;
  one.virtual_stages = 2;
  one.microbatches = 17;
  EXPECT_THROW(step_time(one, fit), std::runtime_error);
}

TEST(StepModel, GemmsRunAtTheirSustainedRate) {
  StepConfig config = published_h100_config(AllToAll::standard);
  EXPECT_EQ(config.hardware.sustained_gemm_slowdown.value, kSustainedGemmSlowdown);
  EXPECT_EQ(hardware_profile("h200").sustained_gemm_slowdown.value, kSustainedGemmSlowdown);
  const StepParameters& fit = fit_to_published(Hypothesis::h2);
  const StepTime slow = step_time(config, fit);
  config.hardware.sustained_gemm_slowdown.value = 0;
  const StepTime burst = step_time(config, fit);
  for (const char* name : {"routed experts", "other GEMMs"})
    EXPECT_NEAR(slow.part_ms(name) / burst.part_ms(name), kSustainedGemmSlowdown, 1e-9) << name;
  EXPECT_EQ(slow.part_ms("attention"), burst.part_ms("attention"));
}

// The H100 runs have no tensor parallelism. On B200s its time is a separate part, which is not carried over.
TEST(StepModel, TensorParallelismIsNoPartOfTheRest) {
  const StepParameters& fit = fit_to_published(Hypothesis::h2);
  const StepTime b200 = step_time(published_b200_config(false, AllToAll::standard), fit);
  const StepTime h100 = step_time(published_h100_config(AllToAll::standard), fit);
  EXPECT_NEAR(b200.part_ms("tensor parallelism"), 12 * 61 * 2 * 7168 / 650e6, 1e-9);
  EXPECT_EQ(h100.part_ms("tensor parallelism"), 0);
  // It is not known whether the rest scales with the memory or not at all.
  StepParameters host = fit;
  host.rest_with_memory = 0;
  EXPECT_NEAR(step_time(published_h100_config(AllToAll::standard), host).part_ms("rest"), fit.rest_ms, 1e-12);
  EXPECT_NEAR(h100.part_ms("rest"), fit.rest_ms * 7200 / 3000, 1e-12);
}

// Every part that depends on a fitted number names that number.
TEST(StepModel, FittedNumbersAreNamedWhereTheyAre) {
  const StepParameters& fit = fit_to_published(Hypothesis::h2);
  const auto fitted = [](const StepTime& time, std::string_view name) {
    for (const StepPart& part : time.parts)
      if (part.name == name) return part.fitted;
    ADD_FAILURE() << name;
    return std::string();
  };
  const StepTime standard = step_time(published_b200_config(false, AllToAll::standard), fit);
  EXPECT_EQ(fitted(standard, "all-to-all"), "standard network rate");
  EXPECT_EQ(fitted(standard, "rest"), "rest");
  EXPECT_EQ(fitted(standard, "routed experts"), "");
  EXPECT_EQ(fitted(standard, "attention"), "");
  EXPECT_EQ(fitted(standard, "pipeline bubble"), "standard network rate, rest");
  const StepTime mxfp8 = step_time(published_b200_config(true, AllToAll::deep_ep), fit);
  EXPECT_EQ(fitted(mxfp8, "routed experts"), "MXFP8 speed-up");
  EXPECT_EQ(fitted(mxfp8, "quantization"), "MXFP8 speed-up");
  EXPECT_EQ(fitted(mxfp8, "all-to-all"), "");
  const StepTime h100 = step_time(published_h100_config(AllToAll::deep_ep), fit);
  EXPECT_EQ(fitted(h100, "other GEMMs"), "slow-down of GEMMs back to back");
  // A part changes with a fitted number if, and only if, it names it.
  StepParameters other = fit;
  other.standard_network_share *= 0.9;
  other.mxfp8_speedup *= 1.1;
  other.rest_ms *= 1.2;
  for (const auto& [mx, kind] : {std::pair{false, AllToAll::standard}, {true, AllToAll::deep_ep}}) {
    const StepTime before = step_time(published_b200_config(mx, kind), fit);
    const StepTime after = step_time(published_b200_config(mx, kind), other);
    for (std::size_t i = 0; i < before.parts.size(); ++i)
      EXPECT_EQ(before.parts[i].ms != after.parts[i].ms, !before.parts[i].fitted.empty()) << before.parts[i].name;
  }
}

RoutingTraffic traffic(const char* rule, int ranks, AllToAll kind) {
  const std::int64_t tokens = 512LL * ranks;
  const auto topk = route_by_pattern(parse_routing_pattern(rule), tokens, 8, 256);
  return routing_traffic(count_volumes(topk, 8, 256, ranks, 8), tokens, kind);
}

TEST(StepModel, TrafficCountsTheCopiesThatStayOnTheirRank) {
  // All copies of a token are for one rank of 32 on 4 nodes. A copy of DeepEP stays if it arrives on the rank that
  // needs it: the own one, or that of its index on another node.
  EXPECT_NEAR(traffic("forced", 32, AllToAll::standard).local, 8.0 / 32, 1e-12);
  EXPECT_NEAR(traffic("forced", 32, AllToAll::deep_ep).local, 4.0 / 32, 1e-12);
}

TEST(StepModel, ImbalanceDispersionAndOverlapMoveTheTimeTheRightWay) {
  const StepParameters fit = fit_to_published(Hypothesis::h2);
  const auto throughput = [&](const char* rule, AllToAll kind, auto change) {
    StepConfig config = published_b200_config(false, kind);
    config.traffic = traffic(rule, 32, kind);
    change(config);
    return step_time(config, fit).tokens_per_second;
  };
  const auto as_is = [](StepConfig&) {};
  const double forced = throughput("forced", AllToAll::deep_ep, as_is);
  const double grouped = throughput("grouped:4/8", AllToAll::deep_ep, as_is);
  const double uniform = throughput("uniform", AllToAll::deep_ep, as_is);
  const double skewed = throughput("zipf:1", AllToAll::deep_ep, as_is);
  EXPECT_GT(forced, grouped);
  EXPECT_GT(grouped, uniform);
  EXPECT_GT(uniform, skewed);
  const double standard = throughput("uniform", AllToAll::standard, as_is);
  EXPECT_GT(throughput("uniform", AllToAll::standard, [](StepConfig& c) { c.overlap = 0.5; }), standard);
  EXPECT_GT(throughput("uniform", AllToAll::standard, [](StepConfig& c) { c.payload = Payload::mxfp8; }), standard);
  EXPECT_GT(throughput("uniform", AllToAll::standard, [](StepConfig& c) { c.recompute = Recompute::none; }), standard);
  EXPECT_LT(throughput("uniform", AllToAll::standard, [](StepConfig& c) { c.microbatches = 4; }), standard);
  EXPECT_THROW(throughput("uniform", AllToAll::standard, [](StepConfig& c) { c.gpus = 250; }), std::runtime_error);
  EXPECT_THROW(throughput("uniform", AllToAll::standard,
                          [](StepConfig& c) {
                            c.hardware = hardware_profile("h100");
                            c.mxfp8 = true;
                          }),
               std::runtime_error);
}

}  // namespace
}  // namespace moescope
