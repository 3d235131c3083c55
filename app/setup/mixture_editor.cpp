#include "app/setup/mixture_editor.h"

#include <QGridLayout>
#include <QLabel>
#include <QPushButton>
#include <QSignalBlocker>
#include <QSlider>
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/config/mixture.h"
#include "core/numerics/index.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

namespace {
constexpr int kFull = 20;  // steps from one end of a slider to the other
}

MixtureEditor::MixtureEditor(QWidget* parent) : QWidget(parent) {
  grid_ = new QGridLayout(this);
  grid_->setContentsMargins(0, 0, 0, 0);
  grid_->setHorizontalSpacing(kSpace8);
  grid_->setVerticalSpacing(kSpace4);
  grid_->setColumnStretch(1, 1);
  even_ = new QPushButton("Same as the data", this);
  even_->hide();  // shown once there are domains
  even_->setToolTip(
      "No weights: built-in domains are equally frequent, all places of your own text are equally likely");
  connect(even_, &QPushButton::clicked, this, [this] { emit mixtureChosen({}); });
}

void MixtureEditor::setDomains(const std::vector<std::string>& domains) {
  if (domains == domains_) return;
  domains_ = domains;
  for (const Row& row : rows_) {
    delete row.name;
    delete row.slider;
    delete row.share;
  }
  rows_.clear();
  for (const std::string& domain : domains) {
    const QString name = QString::fromStdString(domain);
    Row row{new QLabel(name), new QSlider(Qt::Horizontal), new QLabel};
    row.slider->setRange(0, kFull);
    row.slider->setPageStep(5);
    row.slider->setAccessibleName("Weight of " + name);
    row.slider->setToolTip(QString("Weight of %1 in the batches of all runs, from the next step on").arg(name));
    row.name->setBuddy(row.slider);
    followFont(row.share,
               [share = row.share] { share->setMinimumWidth(share->fontMetrics().horizontalAdvance("100 %")); });
    row.share->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
    // While the user drags a slider only the shown shares change. A key press sets the mixture at once.
    connect(row.slider, &QSlider::valueChanged, this, [this, slider = row.slider] {
      as_data_lie_ = false;
      showShares();
      if (!slider->isSliderDown()) choose();
    });
    connect(row.slider, &QSlider::sliderReleased, this, &MixtureEditor::choose);
    followFont(row.name,
               [name = row.name] { name->setMinimumWidth(withType(kLabelColumn, name->fontMetrics()) - kSpace8); });
    const int at = to_int(rows_.size());
    grid_->addWidget(row.name, at, 0);
    grid_->addWidget(row.slider, at, 1);
    grid_->addWidget(row.share, at, 2);
    rows_.push_back(row);
  }
  grid_->addWidget(even_, to_int(rows_.size()), 0, 1, 3, Qt::AlignLeft);
  even_->show();
  setMixture({});
}

void MixtureEditor::setMixture(const std::string& text) {
  std::vector<double> weights;
  try {
    weights = mixture_weights(text, domains_);
  } catch (const std::invalid_argument&) {
    return;  // the mixture names domains of other data
  }
  as_data_lie_ = weights.empty();
  double largest = 0;
  for (const double weight : weights) largest = std::max(largest, weight);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const QSignalBlocker quiet(rows_[i].slider);
    rows_[i].slider->setValue(weights.empty() ? kFull / 2 : to_int(std::lround(kFull * weights[i] / largest)));
  }
  showShares();
}

void MixtureEditor::showShares() {
  double sum = 0;
  for (const Row& row : rows_) sum += row.slider->value();
  for (const Row& row : rows_)
    row.share->setText(as_data_lie_ ? QString()
                                    : QString("%1 %").arg(100 * row.slider->value() / std::max(sum, 1.0), 0, 'f', 0));
  even_->setEnabled(!as_data_lie_);
}

void MixtureEditor::choose() {
  MixtureEntries entries;
  double sum = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const int weight = rows_[i].slider->value();
    sum += weight;
    if (weight > 0) entries.emplace_back(domains_[i], static_cast<double>(weight) / kFull);
  }
  if (sum > 0) emit mixtureChosen(QString::fromStdString(mixture_text(entries)));
}

}  // namespace moescope
