#include "app/actions/meaning_editor.h"

#include <QButtonGroup>
#include <QRadioButton>
#include <QVBoxLayout>
#include <array>
#include <span>
#include <string_view>

#include "app/look/dialog_parts.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"

namespace moescope {

namespace {

constexpr double kNatsOfBit = 0.6931471805599453;

struct ValueUnit {
  const char *text, *means;
  double scale = 1;
};
struct NameMeaning {
  const char* text;
  std::span<const ValueUnit> units;  // of a single one, no choice is shown
};
constexpr ValueUnit kOfLoad[] = {{"counts: tokens of a step", "tokens_per_expert"},
                                 {"shares of the step: their sum is 1", "load_share"},
                                 {"times the fair share: their mean is 1", "utilization"}};
constexpr ValueUnit kOfLoss[] = {{"nats", "ce_loss"}, {"bits", "ce_loss", kNatsOfBit}};
constexpr ValueUnit kOfValidation[] = {{"nats", "val_loss"}, {"bits", "val_loss", kNatsOfBit}};
constexpr ValueUnit kOfBias[] = {{"", "expert_bias"}}, kOfAuxiliary[] = {{"", "aux_loss"}}, kOfZ[] = {{"", "z_loss"}},
                    kOfGradient[] = {{"", "grad_norm"}}, kOfRate[] = {{"", "lr"}}, kOfSpeed[] = {{"", "tokens_per_s"}},
                    kOfMaxVio[] = {{"", "max_vio"}}, kOfEntropy[] = {{"", "entropy_norm"}}, kOfCv[] = {{"", "cv"}},
                    kOfDead[] = {{"", "dead_fraction"}}, kOfDropped[] = {{"", "dropped_fraction"}},
                    kOfStep[] = {{"", "step"}};
constexpr NameMeaning kMeanings[] = {{"Load of experts", kOfLoad},
                                     {"Training loss", kOfLoss},
                                     {"Validation loss", kOfValidation},
                                     {"Expert bias", kOfBias},
                                     {"Auxiliary loss", kOfAuxiliary},
                                     {"z-loss", kOfZ},
                                     {"Gradient norm", kOfGradient},
                                     {"Learning rate", kOfRate},
                                     {"Tokens per second", kOfSpeed},
                                     {"MaxVio", kOfMaxVio},
                                     {"Entropy of the load, 1 for an even one", kOfEntropy},
                                     {"Coefficient of variation of the load", kOfCv},
                                     {"Share of dead experts", kOfDead},
                                     {"Share of dropped tokens", kOfDropped},
                                     {"Number of the step", kOfStep}};
constexpr std::array kNumberMeanings = {"{layer}", "{expert}", "*"};

// Returns the parts of a name between its numbers, and the numbers: "blk", "{layer}", ".e", "{expert}", ".frac".
std::vector<std::string> partsOfName(const std::string& name) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < name.size(); ++i) {
    bool isNumber = false;
    for (const std::string_view number : {"{layer}", "{expert}", "{n}"})
      if (std::string_view(name).substr(i).starts_with(number)) {
        parts.emplace_back(number);
        parts.emplace_back();
        i += number.size() - 1;
        isNumber = true;
        break;
      }
    if (!isNumber) parts.back() += name[i];
  }
  return parts;
}

void clearLayout(QLayout* layout) {
  while (QLayoutItem* item = layout->takeAt(0)) {
    delete item->widget();
    delete item;
  }
}

// Index of the meaning and of the unit of a value of `means`; 0 if there is none.
std::pair<int, int> placeOf(const std::string& means) {
  for (std::size_t m = 0; m < std::size(kMeanings); ++m)
    for (std::size_t u = 0; u < kMeanings[m].units.size(); ++u)
      if (means == kMeanings[m].units[u].means) return {static_cast<int>(m), static_cast<int>(u)};
  return {0, 0};
}

}  // namespace

MeaningEditor::MeaningEditor(QWidget* parent)
    : QWidget(parent),
      title_(new QLabel),
      evidence_(quietText()),
      means_(new QComboBox),
      numbers_(plainColumn(kSpace4)),
      units_(plainColumn(kSpace4)),
      unit_(new QButtonGroup(this)) {
  title_->setTextFormat(Qt::PlainText);
  title_->setWordWrap(true);
  title_->setObjectName("meaning_name");
  means_->setObjectName("meaning");
  means_->setAccessibleName("This name is");
  for (const NameMeaning& meaning : kMeanings) means_->addItem(meaning.text);
  auto* column = plainColumn(this, kSpace8);
  column->addWidget(title_);
  column->addWidget(new QLabel("This name is"));
  column->addWidget(means_);
  column->addLayout(numbers_);
  column->addLayout(units_);
  column->addWidget(evidence_);
  column->addStretch(1);
  connect(means_, &QComboBox::currentIndexChanged, this, &MeaningEditor::showUnits);
  title_->setText("Choose a row to state what its names mean");
  setEnabled(false);
}

void MeaningEditor::edit(const AccountRow& row) {
  name_ = row.name;
  setEnabled(true);
  title_->setText(QString::fromStdString(row.name));
  const auto [meaning, unit] = placeOf(row.means);
  means_->setCurrentIndex(meaning);
  showNumbers();
  showUnits();
  if (QAbstractButton* button = unit_->button(unit)) button->setChecked(true);
  QStringList evidence{QString("Values: %1").arg(QString::fromStdString(range_text(row)))};
  if (!row.reason.empty()) evidence << QString::fromStdString(row.reason);
  if (!row.question.empty()) evidence << "Is this right? " + QString::fromStdString(row.question);
  evidence_->setText(evidence.join("\n"));
}

// Shows a choice for each number in the name: layer, expert, or any number.
void MeaningEditor::showNumbers() {
  clearLayout(numbers_);
  number_means_.clear();
  for (const std::string& part : partsOfName(name_)) {
    const bool isNumber = part == "{layer}" || part == "{expert}" || part == "{n}";
    if (!isNumber) continue;
    auto* choice = new QComboBox;
    const int number = static_cast<int>(number_means_.size()) + 1;
    choice->setObjectName(QString("number_%1").arg(number));
    for (const char* what : {"the layer", "the expert", "any number"})
      choice->addItem(QString("Number %1 is %2").arg(number).arg(what));
    choice->setCurrentIndex(part == "{layer}" ? 0 : part == "{expert}" ? 1 : 2);
    numbers_->addWidget(choice);
    number_means_.push_back(choice);
  }
}

void MeaningEditor::showUnits() {
  clearLayout(units_);
  const auto& units = kMeanings[means_->currentIndex()].units;
  if (units.size() > 1) units_->addWidget(new QLabel("Values are"));
  for (std::size_t i = 0; i < units.size(); ++i) {
    auto* button = new QRadioButton(units[i].text);
    button->setObjectName(QString("unit_%1").arg(i));
    unit_->addButton(button, i);
    units_->addWidget(button);
    button->setVisible(units.size() > 1);
    button->setChecked(i == 0);
  }
}

std::string MeaningEditor::pattern() const {
  std::string pattern;
  std::size_t number = 0;
  for (const std::string& part : partsOfName(name_)) {
    const bool isNumber = part == "{layer}" || part == "{expert}" || part == "{n}";
    pattern += isNumber ? kNumberMeanings[number_means_[number++]->currentIndex()] : part;
  }
  return pattern;
}

std::string MeaningEditor::rule() const {
  const NameMeaning& meaning = kMeanings[means_->currentIndex()];
  const ValueUnit& unit = meaning.units[std::max(0, unit_->checkedId())];
  return tag_rule(pattern(), unit.means, unit.scale);
}

std::string MeaningEditor::ruleToLeaveOut() const {
  return tag_rule(pattern(), "ignored");
}

}  // namespace moescope
