#include "widgets/all_to_all/saving_view.h"

#include <QLabel>
#include <cmath>

#include "core/frame/router_stats.h"
#include "widgets/all_to_all/wire_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {
namespace {

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
  column->addWidget(links_, 1);
  auto* definition = new FittedLabel(this);
  definition->setTexts(
      {"saved = 1 \u2212 network bytes of DeepEP \u00f7 standard; same routing, dispatch only; bytes over NVLink are "
       "not counted",
       "saved = 1 \u2212 network bytes of DeepEP \u00f7 standard, same routing",
       "saved = 1 \u2212 network of DeepEP \u00f7 standard"});
  wire_ = new FittedLabel(this);
  for (FittedLabel* note : {definition, wire_}) {
    note->setRole(QPalette::PlaceholderText);
    followFont(note, [note] { note->setFont(typeFont(Type::caption)); });
    column->addWidget(note);
  }
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

}  // namespace moescope
