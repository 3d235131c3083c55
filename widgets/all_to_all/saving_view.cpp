#include "widgets/all_to_all/saving_view.h"

#include <QLabel>
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "core/cluster/ranks/routing_patterns.h"
#include "core/frame/router_stats.h"
#include "widgets/all_to_all/wire_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/panel/table_text.h"

namespace moescope {
namespace {

constexpr std::int64_t kMaxModelledTokens = 4096;
constexpr int kModelledTopK[] = {1, 2, 4, 6, 8, 12, 16};
constexpr const char* kModelled = "uniform, modelled";  // a routing of the table

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

SavingView::SavingView(QWidget* parent) : QWidget(parent) {
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
    return QStringList{rows[link].name, rows[row].name,
                       QString(rows[row].figure).replace(QLatin1Char('\t'), QLatin1Char(' '))};
  };
  column->addWidget(links_, 3);
  auto* definition = new FittedLabel(this);
  definition->setTexts(
      {"saved = 1 \u2212 network bytes of DeepEP \u00f7 standard; same routing, dispatch only; NVLink is never added",
       "saved = 1 \u2212 network bytes of DeepEP \u00f7 standard, same routing",
       "saved = 1 \u2212 network of DeepEP \u00f7 standard"});
  wire_ = new FittedLabel(this);
  for (FittedLabel* note : {definition, wire_}) {
    note->setRole(QPalette::PlaceholderText);
    followFont(note, [note] { note->setFont(typeFont(Type::caption)); });
    column->addWidget(note);
  }
  modelled_ = new BandBars(this);
  modelled_->setAccessibleName("Saved by experts per token");
  modelled_->setCaption("saved of the network bytes, by experts per token (modelled, uniform routing)");
  modelled_->setLegend({{"counted at the cursor", 0, BandBars::Fill::solid, true}});
  modelled_->setFormatter([](double share) { return formatPercent(share); });
  modelled_->describe = [this](int row) {
    const ValueTable values = table();
    const auto found = values.find(std::array{table_value(kModelled), table_value(by_top_k_[row].top_k)});
    return found ? rowText(values, *found, 2) : QStringList();
  };
  column->addWidget(modelled_, 4);
}

void SavingView::setNotice(const QString& notice) {
  links_->setNotice(notice);
  modelled_->setVisible(notice.isEmpty());
}

SavingView::Saving SavingView::savingOf(const VolumeFrame& volume, int top_k) {
  return {top_k, total(copies_by_link(volume, AllToAll::standard)), total(copies_by_link(volume, AllToAll::deep_ep)),
          saved_by_deepep(volume)};
}

void SavingView::setVolume(const VolumeFrame& volume, const TelemetryFrame& frame, const History& history,
                           Payload payload) {
  row_bytes_ = bytes_per_token(payload, history.info().dim);
  saving_ = savingOf(volume, history.info().top_k);
  wire_->setTexts(wireForms(frame, history));
  wire_->setVisible(!wire_->text().isEmpty());
  setNotice({});
  model(history.info(), volume);
  fillLinks();
  fillModelled();
}

void SavingView::model(const RunInfo& info, const VolumeFrame& volume) {
  const std::vector<std::int64_t> shape{info.n_experts, volume.ranks, volume.ranks_per_node, info.tokens_per_step,
                                        info.top_k};
  if (shape == shape_) return;
  shape_ = shape;
  by_top_k_.clear();
  if (info.n_experts <= 0 || info.n_experts % volume.ranks != 0) return;
  std::set<int> top_ks(std::begin(kModelledTopK), std::end(kModelledTopK));
  if (info.top_k > 0) top_ks.insert(info.top_k);
  const std::int64_t tokens = std::clamp(info.tokens_per_step, std::int64_t{1}, kMaxModelledTokens);
  for (const int top_k : top_ks) {
    if (top_k > info.n_experts) break;
    const auto topk_TK = route_by_pattern({RoutingRule::uniform}, tokens, top_k, info.n_experts);
    by_top_k_.push_back(
        savingOf(count_volumes(topk_TK, top_k, info.n_experts, volume.ranks, volume.ranks_per_node), top_k));
  }
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

void SavingView::fillModelled() {
  std::vector<BandBars::Row> rows;
  for (const Saving& saving : by_top_k_) {
    if (std::isnan(saving.saved)) continue;
    const bool is_this_run = saving.top_k == saving_.top_k;
    rows.push_back(bar(QString("K = %1").arg(saving.top_k), saving.saved,
                       formatPercent(saving.saved) + QLatin1Char('\t') + (is_this_run ? "this run's K" : ""),
                       is_this_run ? BandBars::kStrong : BandBars::kPlain));
    if (!is_this_run) continue;
    rows.back().low = saving_.saved;
    rows.back().high = saving_.saved;
  }
  modelled_->setVisible(!rows.empty());
  modelled_->setRows(std::move(rows));
  modelled_->markDirty();
}

ValueTable SavingView::table() const {
  ValueTable table({{"routing"},
                    {"experts per token"},
                    {"network, standard", "bytes"},
                    {"network, DeepEP", "bytes"},
                    {"NVLink, standard", "bytes"},
                    {"NVLink, DeepEP", "bytes"},
                    {"saved by DeepEP", "share"}});
  const auto add = [&](const std::string& routing, const Saving& saving) {
    const auto bytes = [this](std::uint64_t copies) { return copies * row_bytes_; };
    table.add(routing, saving.top_k, bytes(saving.standard.network_out), bytes(saving.deep_ep.network_out),
              bytes(saving.standard.nvlink_out), bytes(saving.deep_ep.nvlink_out), saving.saved);
  };
  if (row_bytes_ > 0) add("this step", saving_);
  for (const Saving& saving : by_top_k_) add(kModelled, saving);
  return table;
}

}  // namespace moescope
