// The block microscope: one block of a tensor, amax -> scale byte -> bits -> decoded value -> error, all exact and
// editable. Ctrl+Z and Ctrl+Y undo and redo edits.
#pragma once

#include <QAction>
#include <QComboBox>
#include <QString>
#include <QTableView>
#include <QUndoStack>
#include <span>
#include <vector>

#include "core/numerics/block_anatomy.h"
#include "widgets/microscaling/format_card.h"
#include "widgets/panel/panel.h"

namespace moescope {

class BlockBars;
class BlockCards;
class BlockModel;
class CaptureBar;

// Example blocks for the microscope.
struct BlockPreset {
  QString name, lesson;
  std::vector<float> values;  // 32 values
};
const std::vector<BlockPreset>& blockPresets();

class BlockMicroscopePanel : public Panel {
  Q_OBJECT

 public:
  explicit BlockMicroscopePanel(Selection* selection, QWidget* parent = nullptr);

  // The origin of a block: "row 3, block 7" of "w1", and the run from which the tensor was captured, if it was
  // captured, with the step; empty for an example. `length`: why the last block of the row or column may be shorter.
  struct BlockOrigin {
    QString place, tensor, run = {};
    std::int64_t step = -1;
    QString length = {};
  };
  // Shows a block and discards the edits of the previous block, but keeps the rounding. `shared_amax`: of the
  // values that determine the scale; `tensor_amax`: of the tensor, for the comparison with NVFP4.
  void setBlock(const BlockOrigin& origin, std::vector<float> values, const OperandFormat& format, BlockAxis axis,
                float shared_amax = 0, float tensor_amax = 0);
  void showExample();  // in the format of the shown block
  // Sets the format and keeps the values, unlike setBlock(). The change can be undone.
  void setFormat(const OperandFormat& format);
  void editValue(int element, float value);
  void setRounding(Rounding rounding);
  void selectElement(int element);

  const BlockAnatomy& block() const { return block_; }
  CaptureBar* captureBar() const { return bar_; }                // the origin of the block; hidden by default
  void setSteppable(bool steppable) { steppable_ = steppable; }  // whether the next block has the buttons of stepped()

  ValueTable table() const override;
  QString explain() const override { return explanation({formatCard(state_.format)}); }
  LegendScale bitsLegend() const;  // meaning of the colours of the bits

 signals:
  void elementChosen(int element);
  void formatChosen(const OperandFormat& format);  // other blocks are needed, or another format is shown
  void axisChosen(BlockAxis axis);                 // requests the block along the other axis through the same element
  void stepped(int direction);                     // requests the next or previous block by loss: 1 or -1

 protected:
  std::optional<Provenance> kind() const override;
  QString status() const override;
  Answer answer() const override;
  void resizeEvent(QResizeEvent* event) override;
  void leaveEvent(QEvent*) override { emit readoutChanged({}); }  // else it would hide the status line
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  struct State {
    std::vector<float> values;
    OperandFormat format = mx_format(ElementFormat::e4m3);
    Rounding rounding = Rounding::nearest;
    std::int64_t draw = 0;
    bool operator==(const State& other) const;
  };
  class Change;

  void makeControls();
  void makeOptions();
  QWidget* inOneRow(std::initializer_list<QComboBox*> boxes);
  OperandFormat formatAt(int index) const;  // the format of the choice, under the chosen scale rule
  QString stepText() const;
  QString figures() const;  // figures of the whole block
  void loadPreset(int preset);
  void makeBody();
  void makeActions();
  void requestFormat(const OperandFormat& format);
  void change(State next, const QString& what);
  void apply(const State& state);
  void refresh();
  void emitReadout();
  void fitColumns();

  bool isExample() const { return origin_.place.isEmpty(); }
  bool isShort() const { return !origin_.length.isEmpty() && state_.values.size() % block_size(state_.format) != 0; }
  float exampleAmax() const;
  int exampleBlocks() const {
    return isExample() ? to_int(state_.values.size() - 1) / block_size(state_.format) + 1 : 0;
  }
  void step(int direction);
  std::span<const float> shownValues() const;

  State state_, original_;  // the shown block or the whole example, and as it was opened
  std::size_t first_ = 0;   // first value of the example that is shown
  bool steppable_ = false;
  BlockOrigin origin_;
  BlockAxis axis_ = BlockAxis::row;
  float shared_amax_ = 0, tensor_amax_ = 0;
  BlockAnatomy block_;
  QUndoStack undo_;

  QComboBox *presets_ = nullptr, *format_ = nullptr, *rule_ = nullptr, *rounding_ = nullptr;
  QAction *draw_ = nullptr, *turn_ = nullptr;
  CaptureBar* bar_ = nullptr;
  QWidget* steps_ = nullptr;
  BlockCards* cards_ = nullptr;
  BlockBars* bars_ = nullptr;
  BlockModel* model_ = nullptr;
  QTableView* table_ = nullptr;
};

}  // namespace moescope
