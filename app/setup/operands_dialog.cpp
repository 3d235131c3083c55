#include "app/setup/operands_dialog.h"

#include <QComboBox>
#include <QDialogButtonBox>
#include <QGridLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QVBoxLayout>
#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "app/look/dialog_parts.h"
#include "app/setup/field_editor.h"
#include "widgets/plots/axis.h"

namespace moescope {
namespace {

constexpr std::array kOperands = {OperandRole::x, OperandRole::w, OperandRole::dy};
constexpr const char* kOperandTexts[] = {"Activations (x)", "Weights (W)", "Gradients (dY)"};

QComboBox* recipeChoice() {
  auto* box = new QComboBox;
  box->addItem("as its class");
  for (const RecipeInfo& info : recipes()) addChoice(box, info.name, inPrint(QString::fromUtf8(info.description)));
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
  setWindowTitle("Recipes by operand");
  QGridLayout* grid = fieldGrid();
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
  std::vector<OperandRecipe> single;  // entries without a cell in the table
  for (const OperandRecipe& recipe : readable(text)) {
    if (recipe.gemm || recipe.layers != LayerRange{} || recipe.rounding || recipe.rotated)
      single.push_back(recipe);
    else
      choice(recipe.gemm_class, recipe.operand)->setCurrentIndex(static_cast<int>(recipe.recipe) + 1);
  }
  single_ = new QLineEdit(QString::fromStdString(operand_recipes_text(single)));
  single_->setPlaceholderText("experts.dY.wgrad=bf16, 2-3:experts.W=mxfp4");
  single_->setAccessibleName("Recipes of single layers and GEMMs");
  single_->setToolTip(
      "[LAYERS:]CLASS.OPERAND[.GEMM]=RECIPE, several with commas. Layers count from 0; GEMMs are forward, dgrad, "
      "wgrad.");
  problem_ = problemText();
  QDialogButtonBox* buttons = dialogButtons(this, "OK", &ok_);
  connect(single_, &QLineEdit::textChanged, this, &OperandsDialog::checkSingle);
  connect(buttons, &QDialogButtonBox::accepted, this, [this] {
    emit chosen(this->text());
    accept();
  });
  connect(buttons->addButton(QDialogButtonBox::Reset), &QPushButton::clicked, this, [this] {
    for (const auto& row : choices_)
      for (QComboBox* box : row) box->setCurrentIndex(0);
    single_->clear();
  });
  auto* column = dialogColumn(this, "Recipes by operand");
  column->addWidget(quietText(
      "A recipe set here replaces that of the class for this operand, in all its GEMMs and layers. Each operand is "
      "quantized along the dimension that its GEMM contracts."));
  column->addLayout(grid);
  column->addWidget(new QLabel("Overrides by layer and GEMM"));
  column->addWidget(single_);
  column->addWidget(problem_);
  column->addWidget(buttons);
  checkSingle();
}

void OperandsDialog::checkSingle() {
  QString problem;
  try {
    parse_operand_recipes(single_->text().toStdString());
  } catch (const std::invalid_argument& error) {
    problem = error.what();
  }
  showProblem(problem_, problem);
  ok_->setEnabled(problem.isEmpty());
}

QString OperandsDialog::text() const {
  std::vector<OperandRecipe> chosen;
  for (std::size_t c = 0; c < choices_.size(); ++c)
    for (const OperandRole operand : kOperands)
      if (const int index = choice(static_cast<GemmClass>(c), operand)->currentIndex(); index > 0)
        chosen.push_back({static_cast<GemmClass>(c), operand, static_cast<Recipe>(index - 1)});
  std::ranges::copy(readable(single_->text()), std::back_inserter(chosen));
  return QString::fromStdString(operand_recipes_text(chosen));
}

}  // namespace moescope
