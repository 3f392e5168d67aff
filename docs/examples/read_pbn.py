"""Read boards from a PBN file, solve them double dummy, and print the par of each."""

from pathlib import Path

import numpy as np

from overtrick.datasets import board_files
from overtrick.games.bridge import contract_results, double_dummy, par
from overtrick.games.bridge.cards import SEATS

DEAL = "N:AQ42.K5.QT93.K76 K85.QJ73.A2.QT94 J73.A962.J85.A53 T96.T84.K764.J82"
Path("boards.pbn").write_text(f'[Board "1"]\n[Dealer "N"]\n[Vulnerable "NS"]\n[Deal "{DEAL}"]\n')

for board in board_files.load(Path("boards.pbn")).boards:
    tricks = double_dummy.trick_tables(board.holder[None])
    dealer = np.array([SEATS.index(board.dealer)])
    vulnerable = np.array([contract_results.VULNERABILITIES.index(board.vulnerable)])
    best = par.par(tricks, dealer, vulnerable)
    (contract,) = contract_results.describe_contracts(best.contracts)
    print(f"board {board.number}: par {contract}, {best.score[0]:+d} to North-South")
