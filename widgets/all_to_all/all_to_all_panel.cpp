#include "widgets/all_to_all/all_to_all_panel.h"

#include <QLabel>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "widgets/all_to_all/rank_matrix.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/controls.h"
#include "widgets/plots/axis.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

// Returns the bytes that follow from the routing of all layers; nullopt if the step lacks volumes or the payload is not
// known.
std::optional<std::uint64_t> countedBytes(const TelemetryFrame& frame, const History& history) {
  const auto payload = history.settings_at(frame.step)->text(&PrecisionConfig::payload).value_or("fp32");
  const auto cells = frame.wire.ranks * static_cast<std::size_t>(frame.wire.ranks);
  std::uint64_t sum = 0;
  try {
    const RowBytes row = wire_row_bytes(payload, history.info().dim);
    for (const RouterFrame& router : frame.routers) {
      const VolumeFrame& volume = router.volume;
      const bool is_whole =
          volume.ranks == frame.wire.ranks && volume.copies_RR.size() == cells && volume.distinct_RR.size() == cells;
      if (!is_whole) return std::nullopt;
      const auto bytes_RR = wire_bytes(volume, frame.wire.over_nodes, row);
      sum = std::accumulate(bytes_RR.begin(), bytes_RR.end(), sum);
    }
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
  return frame.routers.empty() ? std::nullopt : std::optional(sum);
}

}  // namespace

QStringList wireForms(const TelemetryFrame& frame, const History& history) {
  const WireFrame& wire = frame.wire;
  const std::size_t ranks = std::max(0, wire.ranks);
  if (ranks < 2 || wire.sent_RR.size() != ranks * ranks || wire.all_to_all_ms_R.size() != ranks) return {};
  std::uint64_t sent_bytes = 0;
  for (std::size_t i = 0; i < wire.sent_RR.size(); ++i)
    if (i / ranks != i % ranks) sent_bytes += wire.sent_RR[i];
  const QString sent = QString("MPI sent %1 in this step").arg(formatBytes(sent_bytes));
  const auto counted = countedBytes(frame, history);
  QString count("not counted");
  if (counted)
    count = *counted == sent_bytes ? QString("as counted") : QString("counted: %1").arg(formatBytes(*counted));
  const double slowest_ms = *std::ranges::max_element(wire.all_to_all_ms_R);
  const QString with_count = sent + QStringLiteral(", ") + count;
  return {with_count + QString("; the slowest rank took %1 ms (measured)").arg(formatValue(slowest_ms, 3)), with_count,
          sent};
}

namespace {

constexpr int kRoomForTime = 680;  // height from which the fullest rank over time is shown

BandBars::Row bar(const QString& name, double value, const QString& figure, int color) {
  return {name, {{value, color}}, std::nan(""), std::nan(""), figure};
}

BandBars::Row heading(const QString& name) {
  return {name, {}, std::nan(""), std::nan(""), {}, true};
}

QString savedText(double saved) {
  return std::isnan(saved) ? QString() : QString("saved %1").arg(formatPercent(saved));
}

}  // namespace

SavingView::SavingView(Selection* selection, QWidget* parent) : QWidget(parent) {
  auto* column = plainColumn(this, kSpace4);
  auto* title = new QLabel("What de-duplication saves", this);
  followFont(title, [title] { title->setFont(typeFont(Type::body, true)); });
  column->addWidget(title);
  links_ = new BandBars(this);
  links_->setAccessibleName("Bytes by link");
  links_->setFormatter([](double bytes) { return formatBytes(bytes); });
  links_->describe = [this](int row) {
    const std::vector<BandBars::Row>& rows = links_->rows();
    int link = row;
    while (link > 0 && !rows[link].heading) --link;
    if (link == row) return QStringList{rows[link].name};
    return QStringList{rows[link].name, rows[row].name,
                       QString(rows[row].figure).replace(QLatin1Char('\t'), QLatin1Char(' '))};
  };
  column->addWidget(links_, 1);
  over_time_ = new LinePlot(selection, this);
  over_time_->setAccessibleName("Fullest rank over time");
  over_time_->refill = [this, selection] {
    const int layer = selection->layer();
    if (selection->histories().empty()) return;
    over_time_->setCaption(QString("fullest rank / mean, layer %1").arg(layer));
    over_time_->setReferences({{1, "even"}});
    over_time_->setSeries({{selection->histories()[selection->run()], Metric::rank_overload, layer, "fullest rank",
                            curveColor(*selection), 0}});
  };
  connect(selection, &Selection::changed, over_time_, &PlotFrame::markDirty);
  column->addWidget(over_time_, 1);
  auto* definition = new FittedLabel(this);
  definition->setTexts({"saved = 1 \u2212 network bytes of DeepEP \u00f7 standard; same routing, dispatch only",
                        "saved = 1 \u2212 network bytes of DeepEP \u00f7 standard, same routing",
                        "saved = 1 \u2212 network of DeepEP \u00f7 standard"});
  wire_ = new FittedLabel(this);
  for (FittedLabel* note : {definition, wire_}) {
    note->setRole(QPalette::PlaceholderText);
    followFont(note, [note] { note->setFont(typeFont(Type::caption)); });
    column->addWidget(note);
  }
}

// In a high panel the bars leave room for the fullest rank of other steps.
void SavingView::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  over_time_->setVisible(height() >= withType(kRoomForTime, fontMetrics()));
}

void SavingView::setVolume(const VolumeFrame& volume, const TelemetryFrame& frame, const History& history,
                           Payload payload) {
  row_bytes_ = bytes_per_token(payload, history.info().dim);
  saving_ = {history.info().top_k, total(copies_by_link(volume, AllToAll::standard)),
             total(copies_by_link(volume, AllToAll::deep_ep)), saved_by_deepep(volume)};
  QStringList forms = wireForms(frame, history);
  if (forms.isEmpty() && history.settings_at(frame.step)->holds(&RouterConfig::force_balance))
    forms = {
        "Forced balance gives a token neighbouring experts, most of them on one rank: DeepEP then sends one copy of "
        "it. A router spreads its experts, and DeepEP saves less",
        "Forced balance gives a token experts of one rank; with a router DeepEP saves less"};
  wire_->setTexts(forms);
  wire_->setVisible(!forms.isEmpty());
  setNotice({});
  fillLinks();
}

void SavingView::fillLinks() {
  const auto bytes = [this](std::uint64_t copies) { return copies * row_bytes_; };
  const double network = bytes(saving_.standard.network_out), deep_ep_network = bytes(saving_.deep_ep.network_out);
  const double nvlink = bytes(saving_.standard.nvlink_out), deep_ep_nvlink = bytes(saving_.deep_ep.nvlink_out);
  std::vector<BandBars::Row> rows;
  if (network > 0) {
    rows.push_back(heading("Network, between nodes"));
    rows.push_back(bar("standard", network, formatBytes(network) + QLatin1Char('\t'), BandBars::kStrong));
    rows.push_back(bar("DeepEP", deep_ep_network,
                       formatBytes(deep_ep_network) + QLatin1Char('\t') + savedText(saving_.saved), BandBars::kStrong));
  } else {
    rows.push_back(heading("No network: one node"));
  }
  const QString factor =
      nvlink > 0 ? QString("%1 \u00d7 the bytes").arg(deep_ep_nvlink / nvlink, 0, 'f', 2) : QString();
  rows.push_back(heading("NVLink, inside a node"));
  rows.push_back(bar("standard", nvlink, formatBytes(nvlink) + QLatin1Char('\t'), BandBars::kPlain));
  rows.push_back(
      bar("DeepEP", deep_ep_nvlink, formatBytes(deep_ep_nvlink) + QLatin1Char('\t') + factor, BandBars::kPlain));
  links_->setRows(std::move(rows));
  links_->markDirty();
}

ValueTable SavingView::table() const {
  ValueTable table({"experts per token", "network, standard [bytes]", "network, DeepEP [bytes]",
                    "NVLink, standard [bytes]", "NVLink, DeepEP [bytes]", "saved by DeepEP [share]"});
  const auto bytes = [this](std::uint64_t copies) { return copies * row_bytes_; };
  if (row_bytes_ > 0)
    table.add(saving_.top_k, bytes(saving_.standard.network_out), bytes(saving_.deep_ep.network_out),
              bytes(saving_.standard.nvlink_out), bytes(saving_.deep_ep.nvlink_out), saving_.saved);
  return table;
}

namespace {

constexpr int kBothHalves = 860;  // least width of a panel with both halves, pixels at the usual font size
constexpr const char* kPayloads[] = {"BF16", "FP8", "MXFP8"};

}  // namespace

AllToAllPanel::AllToAllPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "All-to-all", Provenance::counted, parent) {
  showAnswers();
  auto* halves = new QWidget(this);
  auto* row = plainRow(halves, kSpace24);
  matrix_ = new RankMatrix(halves);
  matrix_->setAccessibleName("Who sends what to whom");
  matrix_->figure = [this](int, int) { return figure(deduplicated() ? FigureKey("distinct") : FigureKey("copies")); };
  matrix_->describe = [this](int source, int destination) {
    if (!shown_) return QStringList();
    return readout(
        {table_value(shown_->step), table_value(selection_->layer()), table_value(source), table_value(destination)});
  };
  matrix_->describeReceived = [this](int rank) { return describeReceived(rank); };
  saving_ = new SavingView(selection_, halves);
  saving_->links()->figureOf = [this](QPoint) { return figure("saved_by_deepep"); };
  row->addWidget(matrix_, 1);
  row->addWidget(saving_, 1);
  for (PlotFrame* plot : std::initializer_list<PlotFrame*>{matrix_, saving_->links()}) {
    plot->refill = [this] { refill(); };
    followSelection(plot);
  }
  connect(matrix_, &MatrixPlot::cellChosen, this, [this](int source, int destination) {
    matrix_->setCurrent(source, destination);
    matrix_->update();
  });
  buildChoices();
  connect(selection_, &Selection::dataChanged, this, &AllToAllPanel::showHalves);
  if (selection_->history()) namePayloads();  // before the first layout, because the names have other widths
  addBody(halves);
  giveFocusTo(matrix_);
}

void AllToAllPanel::buildChoices() {
  view_ = makeChoice({"matrix and bytes", "who sends what to whom", "what de-duplication saves"}, "View",
                     "A narrow panel shows one of the two");
  addControl(view_);
  payload_ = makeChoice({kPayloads[0], kPayloads[1], kPayloads[2]}, "Token format",
                        "A token's row of D values in the all-to-all\n"
                        "BF16: 2 D bytes\n"
                        "FP8: D + 4 D / 128, DeepEP's dispatch\n"
                        "MXFP8: D + D / 32");
  addControl(payload_);
  mode_ = makeChoice({"standard", "DeepEP"}, "Kind of all-to-all",
                     "standard: one copy per chosen expert\n"
                     "DeepEP: de-duplicated, one copy per destination rank");
  addOption(mode_);
  for (const QComboBox* choice : {payload_, mode_})
    connect(choice, &QComboBox::currentIndexChanged, this, [this] {
      matrix_->markDirty();
      saving_->links()->markDirty();
    });
  connect(view_, &QComboBox::currentIndexChanged, this, &AllToAllPanel::showHalves);
  addOption(new LayerCombo(selection_, this));
  keepState("view", view_);
  keepState("mode", mode_);
  keepState("payload", payload_);
}

void AllToAllPanel::resizeEvent(QResizeEvent* event) {
  Panel::resizeEvent(event);
  showHalves();
}

void AllToAllPanel::showHalves() {
  const bool is_wide = width() >= withType(kBothHalves, fontMetrics());
  const int view = view_->currentIndex();
  matrix_->setVisible(view != kSaving || !hasVolume());  // one of the halves says why there are no values
  saving_->setVisible(hasVolume() && (view == kSaving || (view == kBoth && is_wide)));
}

const VolumeFrame* AllToAllPanel::volume(const TelemetryFrame* frame) const {
  const RouterFrame* router = find_router(frame, selection_->layer());
  if (!router) return nullptr;
  const VolumeFrame& volume = router->volume;
  const auto cells = static_cast<std::size_t>(volume.ranks) * volume.ranks;
  const bool whole = cells > 0 && volume.copies_RR.size() == cells && volume.distinct_RR.size() == cells;
  return whole ? &volume : nullptr;
}

QString AllToAllPanel::status() const {
  const auto shown = selection_->frame();
  if (!hasVolume()) return {};
  QStringList parts{timeStatus(shown->step, true), QString("dispatch of layer %1").arg(selection_->layer())};
  if (deduplicated()) parts << QString("DeepEP");
  return parts.join(QStringLiteral(", "));
}

Panel::Answer AllToAllPanel::answer() const {
  const auto shown = selection_->frame();
  const VolumeFrame* volume = this->volume(shown.get());
  const RouterFrame* router = find_router(shown.get(), selection_->layer());
  if (!volume && router && !router->tokens_per_expert.empty())
    return {"What does DeepEP save?",
            {"Not known from this log: it does not say which experts a token uses together. Cluster models it from the "
             "load",
             "Not known from a load; Cluster models it"}};
  if (!volume) return {};
  const std::vector<std::uint64_t> received = received_by_rank(copiesOf(*volume), volume->ranks);
  const auto fullest = std::ranges::max_element(received) - received.begin();
  const DispatchTotals totals = dispatch_totals(*volume, deduplicated());
  if (!(totals.received > 0)) return {};
  const QString times = QString("%1 times the mean").arg(totals.max_over_mean, 0, 'f', 2);
  const bool is_even = totals.max_over_mean < kEvenRanks;
  const QString in_step = "In " + selection_->rangeText({shown->step, shown->step});  // Expert load is of many steps
  const QString waits =
      in_step + (is_even ? QString(" all ranks receive about the same, at most %1").arg(times)
                         : QString(" all wait for rank %1, which receives %2").arg(fullest).arg(times));
  const QString short_form = is_even ? QString("Ranks are even: at most %1").arg(times)
                                     : QString("Rank %1 receives %2").arg(fullest).arg(times);
  if (selection_->history()->settings_at(shown->step)->holds(&RouterConfig::force_balance))
    return {{},
            {"Balance is forced: experts are chosen in turn, so that all ranks receive the same number of copies",
             "Balance is forced: all ranks receive the same"}};
  const double saved = saved_by_deepep(*volume);
  const QString saves = std::isnan(saved) ? QString("; no network: one node")
                                          : QString("; DeepEP saves %1 of the network bytes").arg(formatPercent(saved));
  return {"What does routing cost?", {waits + saves, waits, short_form}};
}

void AllToAllPanel::refill() {
  const History* history = selection_->history();
  shown_.reset();
  if (!hasSteps(matrix_)) return saving_->setNotice(matrix_->notice());
  shown_ = selection_->frame();
  const VolumeFrame* volume = this->volume(shown_.get());
  matrix_->setNotice(volume ? QString() : notInLogNotice(history->info(), "copies between ranks"));
  if (!volume) return saving_->setNotice(matrix_->notice());
  namePayloads();
  fillMatrix(*volume);
  fillFigures(*volume);
  saving_->setVolume(*volume, *shown_, *history, payload());
}

// "BF16, 256 B a copy".
void AllToAllPanel::namePayloads() {
  for (int i = 0; i < payload_->count(); ++i) {
    const std::int64_t bytes = bytes_per_token(static_cast<Payload>(i), selection_->history()->info().dim);
    payload_->setItemText(i, QString("%1, %2 a copy").arg(kPayloads[i], formatBytes(bytes)));
  }
}

// Both kinds have the scale of the standard volumes, so that switching shows what is saved.
void AllToAllPanel::fillMatrix(const VolumeFrame& volume) {
  const std::size_t ranks = volume.ranks;
  std::vector<double> bytes_RR;
  double largest = 0, sum = 0;
  for (std::size_t i = 0; i < volume.copies_RR.size(); ++i) {
    const double sent = i / ranks != i % ranks ? volume.copies_RR[i] * bytesPerCopy() : 0;
    largest = std::max(largest, sent);
    sum += sent;
    bytes_RR.push_back(copiesOf(volume)[i] * bytesPerCopy());
  }
  const double other_ranks = std::max<double>(1, static_cast<double>(ranks * (ranks - 1)));
  matrix_->setBytes(volume.ranks, std::move(bytes_RR), largest, sum / other_ranks);
}

void AllToAllPanel::fillFigures(const VolumeFrame& volume) {
  const AllToAll all_to_all = deduplicated() ? AllToAll::deep_ep : AllToAll::standard;
  const LinkCopies links = total(copies_by_link(volume, all_to_all));
  const DispatchTotals totals = dispatch_totals(volume, deduplicated());
  const std::vector<std::uint64_t> copies_of_ranks = received_by_rank(copiesOf(volume), volume.ranks);
  std::vector<double> received(copies_of_ranks.begin(), copies_of_ranks.end());
  for (double& multiple : received) multiple *= totals.received > 0 ? volume.ranks / totals.received : 0;
  matrix_->setReceived(std::move(received), volume.ranks_per_node);
  matrix_->receivedFigure = figure("dispatch_overload");
  const auto bytes = [&](std::uint64_t copies) { return formatBytes(copies * bytesPerCopy()); };
  const auto share = [&](std::uint64_t copies) {
    return formatPercent(totals.received > 0 ? copies / totals.received : 0);
  };
  const bool is_lean = deduplicated();
  const History& history = *selection_->history();
  const auto value = [&](Metric metric) { return history.value_at(metric, selection_->layer(), shown_->step); };
  const int fullest = matrix_->fullest();
  const int nodes = (volume.ranks + volume.ranks_per_node - 1) / std::max(1, volume.ranks_per_node);
  FigureTarget spread = figure("dispatch_overload");
  spread.key = Metric::ranks_per_token;
  matrix_->setFigures(
      {{"Fullest rank / mean", QString::number(totals.max_over_mean, 'f', 2),
        QString("rank %1%2").arg(fullest).arg(expertsOf(fullest, volume.ranks)), figure("dispatch_overload")},
       {"Over the network", bytes(links.network_out),
        is_lean ? QString("one copy for each node")
                : QString("%1 of the copies cross nodes").arg(share(links.network_out)),
        figure("bytes_across_nodes")},
       {"Over NVLink", bytes(links.nvlink_out),
        is_lean ? QString("forwarded copies included")
                : QString("%1; stay on their rank: %2").arg(share(links.nvlink_out), share(links.local)),
        std::nullopt},
       {"Ranks per token", formatValue(value(Metric::ranks_per_token), 3),
        QString("on %1 of %2 nodes").arg(formatValue(value(Metric::nodes_per_token), 3)).arg(nodes), spread}});
}

QString AllToAllPanel::expertsOf(int rank, int ranks) const {
  const History& history = *selection_->history();
  const int experts = history.info().n_experts, count = ranks > 0 ? experts / ranks : 0;
  const auto placement = history.settings_at(shown_->step)->value(&ParallelConfig::placement);
  if (count == 0 || experts % ranks != 0 || placement.value_or("contiguous") != "contiguous") return {};
  const int first = rank * count, last = first + count - 1;
  if (count == 1) return QString(": expert %1").arg(first);
  return QString(count == 2 ? ": experts %1 and %2" : ": experts %1 to %2").arg(first).arg(last);
}

QStringList AllToAllPanel::describeReceived(int rank) const {
  const VolumeFrame* volume = this->volume(shown_.get());
  if (!volume || rank >= volume->ranks) return {};
  const auto& copies = copiesOf(*volume);
  const double all = received_by_rank(copies, volume->ranks)[rank];
  const double own_copies = copies[static_cast<std::size_t>(rank) * volume->ranks + rank];
  const double mean = dispatch_totals(*volume, deduplicated()).received / volume->ranks;
  return {
      QString("rank %1 receives %2 \u00d7 the mean").arg(rank).arg(mean > 0 ? all / mean : 0, 0, 'f', 2),
      QString("%1 from other ranks, %2")
          .arg(countedText(std::llround(all - own_copies), "copy"), formatBytes((all - own_copies) * bytesPerCopy())),
      countedText(std::llround(own_copies), "copy of its own tokens")};
}

FigureTarget AllToAllPanel::figure(FigureKey key) const {
  return {.key = key,
          .layer = selection_->layer(),
          .other = deduplicated() ? 1 : 0,
          .step = selection_->step(),
          .parameter = bytesPerCopy()};
}

ValueTable AllToAllPanel::table() const {
  if (view_->currentIndex() == kSaving) return saving_->table();
  ValueTable table({"step", "layer", "from rank", "to rank", "standard [copies]", "standard [bytes]", "DeepEP [copies]",
                    "DeepEP [bytes]", "MPI in the whole step [bytes]"});
  const auto shown = selection_->frame();
  const VolumeFrame* volume = this->volume(shown.get());
  if (!volume) return table;
  const bool is_sent = shown->wire.sent_RR.size() == volume->copies_RR.size();
  for (int source = 0; source < volume->ranks; ++source)
    for (int destination = 0; destination < volume->ranks; ++destination) {
      const auto place = static_cast<std::size_t>(source) * volume->ranks + destination;
      const std::uint32_t standard = volume->copies_RR[place], distinct = volume->distinct_RR[place];
      table.add(shown->step, selection_->layer(), source, destination, standard, standard * bytesPerCopy(), distinct,
                distinct * bytesPerCopy(), is_sent ? std::optional(shown->wire.sent_RR[place]) : std::nullopt);
    }
  return table;
}

}  // namespace moescope
