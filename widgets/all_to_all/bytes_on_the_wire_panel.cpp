#include "widgets/all_to_all/bytes_on_the_wire_panel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "core/parallel/wire.h"
#include "widgets/panel/csv.h"

namespace moescope {
namespace {

constexpr int kMaxTimes = 80;
constexpr std::size_t kMaxMarks = 24;  // more discs would merge into a band

QString noRanks() {
  return QString(
      "No ranks: this run trains in one process.\n"
      "mpirun -n 4 moescope-cli train --ep 4 --out run.moescope trains in several processes:\n"
      "open its recording.");
}

}  // namespace

BytesOnTheWirePanel::BytesOnTheWirePanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Bytes on the wire", Provenance::measured_here, parent) {
  showAnswers();
  table_ = new FigureTable({"from rank", "sent", "counted", "difference", "time, ms"}, this);
  table_->setAccessibleName(title());
  addBody(table_, 3);
  plot_ = new XyPlot(this);
  plot_->setCaptions("step", "time in all-to-alls, ms");
  addBody(plot_, 2);
  for (auto signal : {&Selection::dataChanged, &Selection::timeChanged, &Selection::focusChanged})
    connect(selection_, signal, this, [this] { renew(); });
}

void BytesOnTheWirePanel::showEvent(QShowEvent* event) {
  Panel::showEvent(event);
  renew();
}

void BytesOnTheWirePanel::renew() {
  if (!isVisible()) return;
  const History* history = selection_->history();
  rows_.clear();
  const auto frame = selection_->frame();
  const bool spread = frame && fillRows(*frame);
  table_->setVisible(spread);
  plot_->setNotice(!history ? noRunNotice() : !frame ? noDataYetNotice(*selection_) : spread ? QString() : noRanks());
  if (spread) {
    fillTable();
    fillPlot(*history);
  }
  plot_->markDirty();
}

bool BytesOnTheWirePanel::fillRows(const TelemetryFrame& frame) {
  const WireFrame& wire = frame.wire;
  const auto ranks = static_cast<std::size_t>(wire.ranks);
  if (ranks < 2 || wire.sent_RR.size() != ranks * ranks || wire.all_to_all_ms_R.size() != ranks) return false;
  step_ = frame.step;
  over_nodes_ = wire.over_nodes;
  const History& history = *selection_->history();
  payload_ = QString::fromStdString(history.settings_at(frame.step)->text(&PrecisionConfig::payload).value_or("fp32"));
  std::vector<std::uint64_t> counted(ranks * ranks);
  bool known = !frame.routers.empty();
  try {
    const RowBytes row = wire_row_bytes(payload_.toStdString(), history.info().dim);
    for (const RouterFrame& router : frame.routers) {
      const bool whole = router.volume.ranks == wire.ranks && router.volume.copies_RR.size() == counted.size() &&
                         router.volume.distinct_RR.size() == counted.size();
      known = known && whole;
      if (!known) break;
      const auto bytes = wire_bytes(router.volume, wire.over_nodes, row);
      for (std::size_t i = 0; i < counted.size(); ++i) counted[i] += bytes[i];
    }
  } catch (const std::runtime_error&) {
    known = false;  // the payload is not known
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    Row row{0, known ? 0 : std::nan(""), wire.all_to_all_ms_R[r]};
    for (std::size_t to = 0; to < ranks; ++to) {
      if (to == r) continue;
      row.measured += static_cast<double>(wire.sent_RR[r * ranks + to]);
      row.counted += static_cast<double>(counted[r * ranks + to]);
    }
    rows_.push_back(row);
  }
  return true;
}

void BytesOnTheWirePanel::fillTable() {
  table_->setRowCount(static_cast<int>(rows_.size()));
  const QStringList none{"not recorded", "none"};
  for (int r = 0; r < static_cast<int>(rows_.size()); ++r) {
    const Row& row = rows_[r];
    const double difference = row.measured - row.counted;
    table_->setFigure(r, 0, {QString::number(r)});
    table_->setFigure(r, 1, {formatBytes(row.measured)});
    table_->setFigure(r, 2, std::isnan(row.counted) ? none : QStringList{formatBytes(row.counted)});
    table_->setFigure(r, 3,
                      std::isnan(difference) ? none
                      : difference == 0      ? QStringList{"none"}
                                             : QStringList{formatBytes(difference)});
    table_->setFigure(r, 4, {formatValue(row.ms, 3)});
  }
}

Panel::Answer BytesOnTheWirePanel::answer() const {
  if (rows_.empty()) return {};
  double measured = 0, counted = 0, slowest = 0;
  for (const Row& row : rows_) {
    measured += row.measured;
    counted += row.counted;
    slowest = std::max(slowest, row.ms);
  }
  const QString sent = QString("%1 a step").arg(formatBytes(measured));
  const QString equal = std::isnan(counted)   ? QString("this step has no recorded volumes")
                        : counted == measured ? QString("equal to the count from the routing")
                                              : QString("counted from the routing: %1").arg(formatBytes(counted));
  return {"How many bytes does MPI send?",
          {QString("%1, %2; the slowest rank takes %3 ms").arg(sent, equal, formatValue(slowest, 3)),
           sent + ", " + equal, sent}};
}

// Draws every n-th step of a long visible range, since unpacking a step takes time. Times that were read before are
// kept.
void BytesOnTheWirePanel::fillPlot(const History& history) {
  if (times_of_ != &history || times_since_ != history.truncations()) times_.clear();
  times_of_ = &history;
  times_since_ = history.truncations();
  const StepRange range = selection_->range();
  std::vector<QPointF> mean, slowest;
  std::map<std::int64_t, Times> kept;
  const std::vector<std::int64_t> steps = history.steps_in(range);
  const std::size_t every = std::max<std::size_t>(1, std::bit_ceil(steps.size()) / kMaxTimes);
  for (std::size_t i = 0; i < steps.size(); i += every) {
    const std::int64_t step = steps[i];
    auto found = times_.find(step);
    if (found == times_.end()) {
      const auto frame = history.frame_at(step);
      if (!frame || frame->step != step || frame->wire.all_to_all_ms_R.empty()) continue;
      const auto& ms = frame->wire.all_to_all_ms_R;
      const double sum = std::accumulate(ms.begin(), ms.end(), 0.0);
      found = times_.emplace(step, Times{sum / static_cast<double>(ms.size()), *std::ranges::max_element(ms)}).first;
    }
    mean.emplace_back(static_cast<double>(step), found->second.mean);
    slowest.emplace_back(static_cast<double>(step), found->second.slowest);
    kept.insert(*found);
  }
  times_ = std::move(kept);
  plot_->setAtLeastShown({static_cast<double>(range.first), static_cast<double>(range.last)}, {0, 0.1});
  const auto mark = slowest.size() <= kMaxMarks ? XyPlot::Mark::disc : XyPlot::Mark::none;
  plot_->setSeries({{"slowest rank", 1, mark, Qt::SolidLine, std::move(slowest)},
                    {"mean of ranks", 0, XyPlot::Mark::none, Qt::DashLine, std::move(mean)}});
}

QString BytesOnTheWirePanel::status() const {
  if (rows_.empty()) return {};
  return QStringList{timeStatus(step_, true), QString("%1 payload").arg(payload_.toUpper()),
                     over_nodes_ ? QString("hierarchical all-to-all") : QString("flat all-to-all")}
      .join(QStringLiteral(", "));
}

QString BytesOnTheWirePanel::csv() const {
  QString text = QStringLiteral("step,from rank,sent measured [bytes],counted [bytes],all-to-all [ms]\n");
  for (std::size_t r = 0; r < rows_.size(); ++r)
    text += csvRow(step_, r, QString::number(rows_[r].measured, 'f', 0), QString::number(rows_[r].counted, 'f', 0),
                   digits(rows_[r].ms, 6));
  return text;
}

}  // namespace moescope
