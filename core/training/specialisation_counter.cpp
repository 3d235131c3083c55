#include "core/training/specialisation_counter.h"

#include <algorithm>
#include <utility>

#include "core/numerics/threads.h"

namespace moescope {
namespace {

std::size_t count_of_domains(const Batch& batch) {
  if (batch.domain_names) return batch.domain_names->size();
  return static_cast<std::size_t>(*std::ranges::max_element(batch.domain)) + 1;
}

// Adds the tokens on this rank to the counts of a layer. `ids_TK`: experts of these tokens.
void add_layer(const Batch& batch, const BatchPart& part, const std::vector<std::int32_t>& ids_TK, std::size_t top_k,
               SpecialisationFrame& counts) {
  const std::size_t experts = counts.n_experts();
  for (std::size_t part_token = 0; part_token < part.tokens(); ++part_token) {
    const std::size_t t = part.first_token() + part_token;
    const std::int32_t* ids = ids_TK.data() + part_token * top_k;
    std::uint32_t* of_domain = counts.domain_DE.data() + batch.domain_of(t) * experts;
    std::uint32_t* of_byte = counts.byte_256E.empty() ? nullptr : counts.byte_256E.data() + batch.input[t] * experts;
    for (std::size_t i = 0; i < top_k; ++i) {
      const std::size_t e = ids[i];
      ++of_domain[e];
      if (of_byte) ++of_byte[e];
      for (std::size_t j = i; j < top_k; ++j) {
        const std::size_t other = ids[j];
        ++counts.together_EE[std::min(e, other) * experts + std::max(e, other)];
      }
    }
  }
}

void sum_tables(Ranks* ranks, std::vector<SpecialisationFrame>& frames) {
  for (SpecialisationFrame& counts : frames)
    for (std::vector<std::uint32_t>* table : {&counts.domain_DE, &counts.together_EE, &counts.byte_256E})
      sum_over_ranks(ranks, table->data(), table->size());
}

void mirror(SpecialisationFrame& counts) {
  const std::size_t experts = counts.n_experts();
  for (std::size_t i = 0; i < experts; ++i)
    for (std::size_t j = 0; j < i; ++j) counts.together_EE[i * experts + j] = counts.together_EE[j * experts + i];
}

}  // namespace

void SpecialisationCounter::add(const Batch& batch, const Learner<float>& learner) {
  const RunConfig& config = learner.config;
  if (config.telemetry.specialisation_every == 0) {
    counts_.clear();
    return;
  }
  const auto& moe = learner.model().moe();
  const std::size_t experts = config.model.n_experts;
  const std::size_t domains = count_of_domains(batch);
  if (counts_.size() != moe.size() || (!moe.empty() && counts_[0].domain_DE.size() < domains * experts)) {
    counts_.assign(moe.size(), {});
    for (std::size_t i = 0; i < moe.size(); ++i) {
      counts_[i].layer = config.model.n_dense_layers + static_cast<int>(i);
      counts_[i].domain_DE.resize(domains * experts);
      counts_[i].together_EE.resize(experts * experts);
      counts_[i].experts = config.model.n_experts;
      if (config.reads_bytes()) counts_[i].byte_256E.resize(256 * experts);
    }
  }
  const std::size_t top_k = learner.model().top_k();
  parallel_for(moe.size(), [&](int i) {
    const std::size_t layer = i;
    add_layer(batch, learner.model().part(), moe[layer].router.ids, top_k, counts_[layer]);
  });
}

std::vector<SpecialisationFrame> SpecialisationCounter::take(Ranks* ranks) {
  sum_tables(ranks, counts_);
  for (SpecialisationFrame& counts : counts_) mirror(counts);
  return std::exchange(counts_, {});
}

std::vector<SpecialisationFrame> SpecialisationCounter::snapshot(Ranks* ranks) const {
  std::vector<SpecialisationFrame> counts = counts_;
  sum_tables(ranks, counts);
  return counts;
}

// All ranks must hold tables of the same size, so that the tables can be summed; ranks other than 0 begin with zeros.
void SpecialisationCounter::restore(std::vector<SpecialisationFrame> counts, Ranks* ranks) {
  counts_ = std::move(counts);
  if (!ranks || ranks->rank() == 0) return;
  for (SpecialisationFrame& frame : counts_)
    for (std::vector<std::uint32_t>* table : {&frame.domain_DE, &frame.together_EE, &frame.byte_256E})
      std::ranges::fill(*table, 0);
}

}  // namespace moescope
