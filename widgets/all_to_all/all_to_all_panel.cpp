#include "widgets/all_to_all/all_to_all_panel.h"

#include <algorithm>

#include "widgets/all_to_all/link_bars.h"
#include "widgets/panel/csv.h"
#include "widgets/panel/layer_combo.h"

namespace moescope {
namespace {

constexpr double kEvenRanks = 1.05;  // fullest rank over the mean: below, no rank is worth a name

const std::vector<std::uint32_t>& copiesOf(const VolumeFrame& volume, bool deduplicated) {
  return deduplicated ? volume.distinct_RR : volume.copies_RR;
}

std::uint64_t movedOf(const std::vector<std::uint32_t>& copies, int ranks, int source, int destination) {
  return source == destination ? 0 : copies[static_cast<std::size_t>(source) * ranks + destination];
}

double sentBy(const std::vector<std::uint32_t>& copies, int ranks, int rank) {
  std::uint64_t sum = 0;
  for (int to = 0; to < ranks; ++to) sum += movedOf(copies, ranks, rank, to);
  return static_cast<double>(sum);
}

// [R]: copies that arrive on each rank, those that stay on it included.
std::vector<double> receivedBy(const std::vector<std::uint32_t>& copies, int ranks) {
  std::vector<double> received(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < copies.size(); ++i) received[i % received.size()] += copies[i];
  return received;
}

}  // namespace

AllToAllPanel::AllToAllPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "All-to-all", Provenance::counted, parent) {
  showAnswers();
  view_ = new RankMatrix(this);
  view_->refill = [this] { refill(); };
  view_->figure = [this](int, int) { return figure(deduplicated() ? FigureKey("distinct") : FigureKey("copies")); };
  view_->describe = [this](int source, int destination) { return describe(source, destination); };
  view_->describeReceived = [this](int rank) { return describeReceived(rank); };
  followSelection(view_);
  connect(view_, &MatrixPlot::cellChosen, this, [this](int source, int destination) {
    view_->setCurrent(source, destination);
    view_->update();
  });
  payload_ = makeChoice({"BF16", "FP8", "MXFP8"}, "Token format",
                        "A token's row of D values in the all-to-all\n"
                        "BF16: 2 D bytes\n"
                        "FP8: D + 4 D / 128, DeepEP's dispatch\n"
                        "MXFP8: D + D / 32");
  addControl(payload_);
  mode_ = makeChoice({"standard", "DeepEP"}, "Kind of all-to-all",
                     "standard: one copy per chosen expert\n"
                     "DeepEP: de-duplicated, one copy per destination rank");
  addOption(mode_);
  for (const QComboBox* choice : {payload_, mode_}) {
    connect(choice, &QComboBox::currentIndexChanged, view_, &PlotFrame::markDirty);
    connect(choice, &QComboBox::currentIndexChanged, this, qOverload<>(&QWidget::update));
  }
  addOption(new LayerCombo(selection, this));
  addBody(view_);
  keepState("mode", mode_);
  keepState("payload", payload_);
}

double AllToAllPanel::bytesPerCopy() const {
  return static_cast<double>(bytes_per_token(payload(), selection_->history()->info().dim));
}

const VolumeFrame* AllToAllPanel::volume(const TelemetryFrame* frame) const {
  const VolumeFrame* volume = volumeOf(frame, selection_->layer());
  if (!volume) return nullptr;
  const auto cells = static_cast<std::size_t>(volume->ranks) * volume->ranks;
  const bool whole = cells > 0 && volume->copies_RR.size() == cells && volume->distinct_RR.size() == cells;
  return whole ? volume : nullptr;
}

QString AllToAllPanel::status() const {
  const auto shown = selection_->frame();
  if (!shown) return {};
  QStringList parts{QString("layer %1").arg(selection_->layer())};
  if (deduplicated()) parts << QString("DeepEP");
  parts << timeStatus(shown->step, true) << rowWidth(*selection_->history());
  parts.removeAll(QString());
  return parts.join(QStringLiteral(", "));
}

Panel::Answer AllToAllPanel::answer() const {
  const auto shown = selection_->frame();
  const VolumeFrame* volume = this->volume(shown.get());
  if (!volume) return {};
  const std::vector<double> received = receivedBy(copiesOf(*volume, deduplicated()), volume->ranks);
  const auto fullest = std::ranges::max_element(received) - received.begin();
  const DispatchTotals totals = dispatch_totals(*volume, deduplicated());
  if (!(totals.received > 0)) return {};
  const QString question = "What does routing cost?";
  const QString most = QString("%1 \u00d7 the mean").arg(totals.max_over_mean, 0, 'f', 2);
  if (totals.max_over_mean < kEvenRanks)
    return {question,
            {QString("All ranks receive about the same: at most %1").arg(most),
             QString("Ranks are even: at most %1").arg(most)}};
  return {question,
          {QString("The step waits for rank %1: %2").arg(fullest).arg(most),
           QString("Rank %1 gets %2").arg(fullest).arg(most)}};
}

void AllToAllPanel::refill() {
  const History* history = selection_->history();
  shown_.reset();
  if (!hasSteps(view_)) return;
  shown_ = selection_->frame();
  const VolumeFrame* volume = this->volume(shown_.get());
  if (!volume) return view_->setNotice(notInLogNotice(history->info(), "copies between ranks"));
  view_->setNotice({});
  fillMatrix(*volume);
  fillFigures(*volume);
}

// Scales both kinds by the standard volumes, so that switching shows what is saved.
void AllToAllPanel::fillMatrix(const VolumeFrame& volume) {
  std::uint64_t top = 1;
  std::vector<std::uint8_t> codes;
  for (int s = 0; s < volume.ranks; ++s)
    for (int d = 0; d < volume.ranks; ++d) top = std::max(top, movedOf(volume.copies_RR, volume.ranks, s, d));
  for (int s = 0; s < volume.ranks; ++s)
    for (int d = 0; d < volume.ranks; ++d) {
      const auto moved = movedOf(copiesOf(volume, deduplicated()), volume.ranks, s, d);
      codes.push_back(s == d ? kNoDataCode : scaleCode(static_cast<double>(moved) / static_cast<double>(top)));
    }
  view_->setCells(volume.ranks, volume.ranks, std::move(codes));
  view_->setLegend({.lut = matrixLut(isDark(palette())), .ticks = {}, .caption = {}});
}

void AllToAllPanel::fillFigures(const VolumeFrame& volume) {
  const DispatchTotals standard = dispatch_totals(volume, false), lean = dispatch_totals(volume, true);
  const DispatchTotals& now = deduplicated() ? lean : standard;
  std::vector<double> received = receivedBy(copiesOf(volume, deduplicated()), volume.ranks);
  for (double& each : received) each *= now.received > 0 ? volume.ranks / now.received : 0;
  view_->setReceived(std::move(received), volume.ranks_per_node);
  view_->receivedFigure = figure("dispatch_overload");
  view_->setFigures(
      {{"sent a step", formatBytes(now.moved * bytesPerCopy()), figure("bytes_moved")},
       {"between nodes", formatBytes(now.across_nodes * bytesPerCopy()), figure("bytes_across_nodes")},
       {"saved by DeepEP", standard.moved > 0 ? formatPercent(1 - lean.moved / standard.moved) : QString("nothing"),
        figure("bytes_saved")}});
}

QStringList AllToAllPanel::describe(int source, int destination) const {
  const VolumeFrame* volume = this->volume(shown_.get());
  if (!volume) return {};
  if (source == destination) return {QString("rank %1 to itself: not sent").arg(source)};
  const auto place = static_cast<std::size_t>(source) * volume->ranks + destination;
  const double standard = volume->copies_RR[place], distinct = volume->distinct_RR[place];
  const double out = sentBy(copiesOf(*volume, deduplicated()), volume->ranks, source);
  return {QString("rank %1 to rank %2").arg(source).arg(destination),
          QString("standard: %1 copies, %2").arg(formatCount(standard), formatBytes(standard * bytesPerCopy())),
          QString("DeepEP: %1 copies, %2").arg(formatCount(distinct), formatBytes(distinct * bytesPerCopy())),
          QString("rank %1 sends %2 in all").arg(source).arg(formatBytes(out * bytesPerCopy()))};
}

QStringList AllToAllPanel::describeReceived(int rank) const {
  const VolumeFrame* volume = this->volume(shown_.get());
  if (!volume || rank >= volume->ranks) return {};
  const auto& copies = copiesOf(*volume, deduplicated());
  const double all = receivedBy(copies, volume->ranks)[static_cast<std::size_t>(rank)];
  const double own = copies[static_cast<std::size_t>(rank) * volume->ranks + rank];
  const double mean = dispatch_totals(*volume, deduplicated()).received / volume->ranks;
  return {
      QString("rank %1 receives %2 \u00d7 the mean").arg(rank).arg(mean > 0 ? all / mean : 0, 0, 'f', 2),
      QString("%1 copies from other ranks, %2").arg(formatCount(all - own), formatBytes((all - own) * bytesPerCopy())),
      QString("%1 copies of its own tokens").arg(formatCount(own))};
}

FigureTarget AllToAllPanel::figure(FigureKey key) const {
  return {.key = key,
          .layer = selection_->layer(),
          .other = deduplicated() ? 1 : 0,
          .step = selection_->step(),
          .parameter = bytesPerCopy()};
}

QString AllToAllPanel::csv() const {
  QString text = QStringLiteral(
      "step,layer,from rank,to rank,standard [copies],standard [bytes],DeepEP [copies],DeepEP [bytes]\n");
  const auto shown = selection_->frame();
  const VolumeFrame* volume = this->volume(shown.get());
  if (!volume) return text;
  for (int s = 0; s < volume->ranks; ++s)
    for (int d = 0; d < volume->ranks; ++d) {
      const auto place = static_cast<std::size_t>(s) * volume->ranks + d;
      const double standard = volume->copies_RR[place], distinct = volume->distinct_RR[place];
      text += QStringLiteral("%1,%2,%3,%4,").arg(shown->step).arg(selection_->layer()).arg(s).arg(d) +
              csvRow(QString::number(standard, 'f', 0), QString::number(standard * bytesPerCopy(), 'f', 0),
                     QString::number(distinct, 'f', 0), QString::number(distinct * bytesPerCopy(), 'f', 0));
    }
  return text;
}

}  // namespace moescope
