#include "core/cluster/pipeline.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace moescope {
namespace {

// Largest number of simulated rounds. Each later round repeats the schedule and takes the time of the busiest rank.
constexpr int kPlayedRounds = 64;
constexpr double kUnfinished = -1;

struct Operation {
  bool forward;
  int stage, microbatch;
};

struct Schedule {
  int ranks, stages_per_rank, microbatches, round;  // `round`: microbatches per round

  int stages() const { return ranks * stages_per_rank; }
  int operations() const { return microbatches * stages_per_rank; }  // operations of a rank in each direction

  int warm_up(int rank) const {
    const int hops = ranks - 1 - rank;
    const int operations_before = stages_per_rank == 1 ? hops : (stages_per_rank - 1) * round + 2 * hops;
    return std::min(operations_before, operations());
  }

  // Returns the i-th forward or backward operation of a rank. In each round, all microbatches of the round pass one
  // stage of the rank, then the next stage.
  Operation operation(bool forward, int rank, int i) const {
    const int chunk = i / round % stages_per_rank;
    const int stage = (forward ? chunk : stages_per_rank - 1 - chunk) * ranks + rank;
    return {forward, stage, i / (round * stages_per_rank) * round + i % round};
  }

  // Returns the n-th operation of a rank: first forwards, then alternately a forward and a backward, then backwards.
  Operation at(int rank, int n) const {
    const int first = warm_up(rank), paired = 2 * (operations() - first);
    if (n < first) return operation(true, rank, n);
    if (n < first + paired) {
      const int turn = n - first;
      return turn % 2 == 0 ? operation(true, rank, first + turn / 2) : operation(false, rank, turn / 2);
    }
    return operation(false, rank, n - operations());
  }
};

Schedule schedule_of(int stages, int ranks, int microbatches) {
  const int stages_per_rank = stages / ranks;
  if (stages_per_rank == 1) return {ranks, 1, microbatches, microbatches};
  const int rounds = std::max(1, microbatches / ranks);
  if (microbatches % rounds)
    throw std::runtime_error(std::to_string(microbatches) + " microbatches do not divide into " +
                             std::to_string(rounds) + " rounds of an interleaved schedule over " +
                             std::to_string(ranks) + " pipeline ranks; take a multiple of " + std::to_string(ranks));
  return {ranks, stages_per_rank, microbatches, microbatches / rounds};
}

// Simulates the schedule: each rank does its operations in order, each operation as soon as its inputs are ready.
class Play {
 public:
  Play(const Schedule& schedule, std::span<const double> forward_S, double backward)
      : schedule_(schedule),
        forward_S_(forward_S),
        backward_(backward),
        done_{std::vector<double>(static_cast<std::size_t>(schedule.stages()) * schedule.microbatches, kUnfinished),
              {}},
        next_(schedule.ranks, 0),
        free_(schedule.ranks, 0) {
    done_[1] = done_[0];
  }

  double makespan() {
    for (bool going = true; going;) {
      going = false;
      for (int rank = 0; rank < schedule_.ranks; ++rank)
        while (next_[rank] < 2 * schedule_.operations() && step(rank)) going = true;
    }
    return *std::ranges::max_element(free_);
  }

 private:
  double& done(bool forward, int stage, int microbatch) {
    return done_[forward][static_cast<std::size_t>(stage) * schedule_.microbatches + microbatch];
  }

  bool step(int rank) {
    const Operation o = schedule_.at(rank, next_[rank]);
    double ready = 0;
    if (o.forward && o.stage > 0) ready = done(true, o.stage - 1, o.microbatch);
    if (!o.forward) {
      ready = done(true, o.stage, o.microbatch);
      if (ready != kUnfinished && o.stage + 1 < schedule_.stages()) ready = done(false, o.stage + 1, o.microbatch);
    }
    if (ready == kUnfinished) return false;
    free_[rank] = std::max(free_[rank], ready) + forward_S_[o.stage] * (o.forward ? 1 : backward_);
    done(o.forward, o.stage, o.microbatch) = free_[rank];
    ++next_[rank];
    return true;
  }

  const Schedule& schedule_;
  std::span<const double> forward_S_;
  double backward_;
  std::vector<double> done_[2];  // [backward, forward][S, M]: end of each operation
  std::vector<int> next_;
  std::vector<double> free_;
};

}  // namespace

std::vector<StageLayers> layers_by_stage(const ModelShape& shape, int stages) {
  const int layers = shape.n_layers, units = layers + 2;
  if (stages > units)
    throw std::runtime_error(std::to_string(stages) + " pipeline stages are more than the " + std::to_string(layers) +
                             " layers, embedding and head of " + shape.name);
  std::vector<StageLayers> result(stages);
  int layer = 0;
  for (int s = 0; s < stages; ++s) {
    StageLayers& stage = result[s];
    stage.head = s == stages - 1;
    int count = units / stages + (s < units % stages ? 1 : 0) - (s == 0 ? 1 : 0) - (stage.head ? 1 : 0);
    for (; count > 0; --count) ++(layer++ < shape.n_dense_layers ? stage.dense : stage.moe);
  }
  return result;
}

PipelineStretch pipeline_stretch(std::span<const double> forward_S, int ranks, int microbatches, double backward) {
  const Schedule full_schedule = schedule_of(forward_S.size(), ranks, microbatches);
  if (ranks == 1) return {};
  double busiest = 0;  // forward time of a microbatch on the busiest rank
  for (int rank = 0; rank < ranks; ++rank) {
    double work = 0;
    for (std::size_t s = rank; s < forward_S.size(); s += ranks) work += forward_S[s];
    busiest = std::max(busiest, work);
  }
  const double both = 1 + backward, mean = std::accumulate(forward_S.begin(), forward_S.end(), 0.0) / ranks;
  const int played = std::min(microbatches, kPlayedRounds * ranks);
  const Schedule schedule = played == microbatches ? full_schedule : schedule_of(full_schedule.stages(), ranks, played);
  const double time = Play(schedule, forward_S, backward).makespan() + (microbatches - played) * busiest * both;
  return {busiest / mean, time / (microbatches * mean * both)};
}

}  // namespace moescope
