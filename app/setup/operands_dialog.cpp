#include "app/setup/operands_dialog.h"

#include <QComboBox>
#include <QDialogButtonBox>
#include <QGridLayout>
#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>
#include <stdexcept>

#include "widgets/plots/axis.h"

namespace moescope {
namespace {

constexpr std::array kOperands = {Operand::x, Operand::w, Operand::dy};
constexpr const char* kOperandTexts[] = {"x, activations", "W, weights", "dY, gradients"};

QComboBox* recipeChoice() {
  auto* box = new QComboBox;
  box->addItem("as the class");
  for (const RecipeInfo& info : recipes()) {
    box->addItem(info.name);
    box->setItemData(box->count() - 1, inPrint(QString::fromUtf8(info.description)), Qt::ToolTipRole);
  }
  return box;
}

std::vector<OperandRecipe> readable(const QString& text) {
  try {
    return parse_operand_recipes(text.toStdString());
  } catch (const std::invalid_argument&) {
    return {};
  }
}

}  // namespace

OperandsDialog::OperandsDialog(const QString& text, QWidget* parent) : QDialog(parent) {
  setAttribute(Qt::WA_DeleteOnClose);
  setObjectName("operands_dialog");
  setWindowTitle("Recipes of single operands");
  auto* grid = new QGridLayout;
  for (std::size_t o = 0; o < kOperands.size(); ++o) grid->addWidget(new QLabel(kOperandTexts[o]), 0, int(o) + 1);
  for (std::size_t c = 0; c < choices_.size(); ++c) {
    const QString name = gemm_class_name(static_cast<GemmClass>(c));
    grid->addWidget(new QLabel(name), int(c) + 1, 0);
    for (std::size_t o = 0; o < kOperands.size(); ++o) {
      choices_[c][o] = recipeChoice();
      choices_[c][o]->setAccessibleName(name + ' ' + operand_name(kOperands[o]));
      grid->addWidget(choices_[c][o], int(c) + 1, int(o) + 1);
    }
  }
  for (const OperandRecipe& each : readable(text))
    choice(each.gemm_class, each.operand)->setCurrentIndex(static_cast<int>(each.recipe) + 1);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel | QDialogButtonBox::Reset);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  connect(buttons, &QDialogButtonBox::accepted, this, [this] {
    emit chosen(this->text());
    accept();
  });
  connect(buttons, &QDialogButtonBox::clicked, this, [this, buttons](QAbstractButton* button) {
    if (buttons->standardButton(button) != QDialogButtonBox::Reset) return;
    for (const auto& row : choices_)
      for (QComboBox* box : row) box->setCurrentIndex(0);
  });
  auto* words = new QLabel(
      "The recipe applies to this operand in all its GEMMs, whatever the class is set to. Each operand is quantized "
      "along the dimension that its GEMM contracts.");
  words->setWordWrap(true);
  auto* column = new QVBoxLayout(this);
  column->addWidget(words);
  column->addLayout(grid);
  column->addWidget(buttons);
}

QComboBox* OperandsDialog::choice(GemmClass gemm_class, Operand operand) const {
  return choices_[static_cast<std::size_t>(gemm_class)][static_cast<std::size_t>(operand)];
}

QString OperandsDialog::text() const {
  std::vector<OperandRecipe> chosen;
  for (std::size_t c = 0; c < choices_.size(); ++c)
    for (const Operand operand : kOperands)
      if (const int index = choice(static_cast<GemmClass>(c), operand)->currentIndex(); index > 0)
        chosen.push_back({static_cast<GemmClass>(c), operand, static_cast<Recipe>(index - 1)});
  return QString::fromStdString(operand_recipes_text(chosen));
}

}  // namespace moescope
