"""The tables of the comparison: where each comes from, what is predicted, and which columns must not be seen."""

from __future__ import annotations

from typing import Literal, NamedTuple
from zlib import crc32

Kind = Literal["gaussian", "amounts", "counts", "classes"]


class Table(NamedTuple):
    """A table of a package. Columns that identify a row, or that follow from the target, are dropped by hand.

    `source` is READER:ITEM, see `sources.py`. `dropped` and `text` are left out; `nominal` are numbers that are names.
    """

    name: str
    source: str
    target: str
    kind: Kind
    dropped: str = ""  # names of columns, with spaces between them
    nominal: str = ""
    text: str = ""  # strings that nearly every row has its own of

    @property
    def half(self) -> Literal["choose", "report"]:
        """Settings are chosen on one half of the tables, results shown of the other; the name decides, for good."""
        return "report" if crc32(self.name.encode()) % 2 else "choose"


_MOVIE_RATINGS = " ".join(f"r{k}" for k in range(1, 11))  # the shares of each mark, of which the rating is the mean
_NHEFS_LATER = (
    "seqn id censored older death yrdth modth dadth wt82 smkintensity82_71 hightax82 price82 tax82 price71_82 tax71_82"
)
_LOAN_OUTCOMES = (
    "grade sub_grade installment loan_status initial_listing_status disbursement_method balance paid_total "
    "paid_principal paid_interest paid_late_fees issue_month"
)
_GRILICHES_1980 = "rns80 mrt80 smsa80 age80 school80 expr80 tenure80 lw80"

NUMBERS = (
    Table("mcycle", "R:MASS/mcycle", "accel", "gaussian"),
    Table("nhefs", "R:causaldata/nhefs", "wt82_71", "gaussian", _NHEFS_LATER, nominal="marital birthplace alcoholtype"),
    Table("nox", "R:robustbase/NOxEmissions", "LNOx", "gaussian"),
    Table("ethanol", "R:lattice/ethanol", "NOx", "gaussian"),
    Table("ozone", "Rlib:mlbench/Ozone", "V4", "gaussian"),
    Table("mpg", "R:ISLR/Auto", "mpg", "gaussian", nominal="origin", text="name"),
    Table("wages", "R:Ecdat/Wages", "lwage", "gaussian"),
    Table("griliches", "R:Ecdat/Griliches", "lw", "gaussian", _GRILICHES_1980),
    Table("caschool", "R:Ecdat/Caschool", "testscr", "gaussian", "readscr mathscr distcod district"),
    Table("star", "R:Ecdat/Star", "tmathssk", "gaussian", "treadssk", nominal="schidkn"),
    Table("boston", "R:MASS/Boston", "medv", "gaussian"),
    Table("concrete", "R:modeldata/concrete", "compressive_strength", "gaussian"),
    Table("energy", "uci:energy", "target", "gaussian"),
    Table("kin8nm", "uci:kin8nm", "target", "gaussian"),
    Table("naval", "uci:naval-propulsion-plant", "target", "gaussian"),
    Table("powerplant", "uci:power-plant", "target", "gaussian"),
    Table("protein", "uci:protein-tertiary-structure", "target", "gaussian"),
    Table("winered", "uci:wine-quality-red", "target", "gaussian"),
    Table("diabetes", "sklearn:diabetes", "target", "gaussian"),
    Table("biomass", "R:modeldata/biomass", "HHV", "gaussian", "dataset", text="sample"),
    Table("meats", "R:modeldata/meats", "protein", "gaussian", "water fat"),
    Table(
        "bdf",
        "R:mlmRev/bdf",
        "langPOST",
        "gaussian",
        "schoolNR pupilNR classNR aritPOST IQ.ver.cen grpSiz.cen",
        nominal="denomina",
    ),
    Table("exam", "R:mlmRev/Exam", "normexam", "gaussian", "student", nominal="school"),
    Table("mathach", "R:mlmRev/Hsb82", "mAch", "gaussian", "school"),
    Table("evals", "R:AER/TeachingRatings", "eval", "gaussian", "prof"),
    Table("collegescore", "R:AER/CollegeDistance", "score", "gaussian", "education"),
    Table("quakes", "R:datasets/quakes", "mag", "gaussian"),
    Table("chicago", "R:modeldata/Chicago", "ridership", "gaussian"),
    Table("babies", "R:openintro/babies", "bwt", "gaussian", "case"),
    Table("births", "R:openintro/births14", "weight", "gaussian", "lowbirthweight"),
    Table("bodyweight", "R:openintro/bdims", "wgt", "gaussian"),
    Table("movies", "R:ggplot2movies/movies", "rating", "gaussian", _MOVIE_RATINGS, text="title"),
    Table(
        "storms",
        "R:dplyr/storms",
        "wind",
        "gaussian",
        "name status category tropicalstorm_force_diameter hurricane_force_diameter",
    ),
    Table("interest", "R:openintro/loans_full_schema", "interest_rate", "gaussian", _LOAN_OUTCOMES, text="emp_title"),
    Table("wealth", "R:wooldridge/k401ksubs", "nettfa", "gaussian", "incsq agesq"),
    Table("sleep", "R:wooldridge/sleep75", "sleep", "gaussian", "case slpnaps leis1 leis2 leis3 rlxall lhrwage agesq"),
    Table("dietox", "R:geepack/dietox", "Weight", "gaussian", "Pig Litter Feed"),
)
AMOUNTS = (
    Table("airquality", "R:datasets/airquality", "Ozone", "amounts"),
    Table("yacht", "uci:yacht", "target", "amounts"),
    Table("gag", "R:MASS/GAGurine", "GAG", "amounts"),
    Table("chickweight", "R:datasets/ChickWeight", "weight", "amounts", "Chick", nominal="Diet"),
    Table("wage", "R:ISLR/Wage", "wage", "amounts", "logwage region"),
    Table("wages1", "R:Ecdat/Wages1", "wage", "amounts"),
    Table("slid", "R:carData/SLID", "wages", "amounts"),
    Table("cps1988", "R:AER/CPS1988", "wage", "amounts"),
    Table("salaries", "R:carData/Salaries", "salary", "amounts"),
    Table("hitters", "R:ISLR/Hitters", "Salary", "amounts"),
    Table("ames", "R:modeldata/ames", "Sale_Price", "amounts"),
    Table("saratoga", "R:mosaicData/SaratogaHouses", "price", "amounts"),
    Table("sacramento", "R:modeldata/Sacramento", "price", "amounts"),
    Table("houses", "R:AER/HousePrices", "price", "amounts"),
    Table("computers", "R:Ecdat/Computers", "price", "amounts"),
    Table("diamonds", "R:ggplot2/diamonds", "price", "amounts"),
    Table("carprices", "R:modeldata/car_prices", "Price", "amounts"),
    Table("cars93", "R:MASS/Cars93", "Price", "amounts", "Min.Price Max.Price Make", text="Model"),
    Table("cpus", "R:MASS/cpus", "perf", "amounts", "estperf", text="name"),
    Table("medexp", "R:Ecdat/MedExp", "med", "amounts"),
    Table("severity", "insurance:severity", "target", "amounts"),
    Table("forbes", "R:HSAUR/Forbes2000", "marketvalue", "amounts", "rank", text="name"),
    Table("tips", "R:reshape2/tips", "tip", "amounts"),
    Table("clothing", "R:Ecdat/Clothing", "tsales", "amounts", "sales"),
    Table("airfare", "R:wooldridge/airfare", "fare", "amounts", "id lfare ldist ldistsq y98 y99 y00 lpassen"),
    Table("checktimes", "R:modeldata/check_times", "check_time", "amounts", "status", text="package"),
    Table("hotelrates", "R:modeldata/hotel_rates", "avg_price_per_room", "amounts", "arrival_date_num"),
    Table("permeability", "R:modeldata/permeability_qsar", "permeability", "amounts"),
)
COUNTS = (
    Table("recreation", "R:AER/RecreationDemand", "trips", "counts"),
    Table("doctorvisits", "R:AER/DoctorVisits", "visits", "counts"),
    Table("nmes", "R:AER/NMES1988", "visits", "counts", "nvisits ovisits novisits emergency hospital"),
    Table("rand", "R:Ecdat/DoctorContacts", "mdu", "counts"),
    Table("docvis", "R:COUNT/rwm1984", "docvis", "counts", "hospvis edlevel1 edlevel2 edlevel3 edlevel4"),
    Table("badhealth", "R:COUNT/badhealth", "numvisit", "counts"),
    Table("medpar", "R:COUNT/medpar", "los", "counts", "died type1 type2 type3", nominal="type provnum"),
    Table("azpro", "R:COUNT/azpro", "los", "counts", nominal="hospital"),
    Table("quine", "R:MASS/quine", "Days", "counts"),
    Table("epilepsy", "R:MASS/epil", "y", "counts", "subject lbase lage V4"),
    Table("articles", "R:AER/PhDPublications", "articles", "counts"),
    Table("bids", "R:Ecdat/Bids", "numbids", "counts", "docno takeover"),
    Table("crime", "R:wooldridge/crime1", "narr86", "counts", "nfarr86 nparr86 pcnvsq pt86sq inc86sq"),
    Table(
        "children", "R:wooldridge/fertil2", "children", "counts", "ceb agefbrth yearborn agesq urb_educ educ0 frsthalf"
    ),
    Table("cigarettes", "R:wooldridge/smoke", "cigs", "counts", "lincome agesq lcigpric"),
    Table("ticks", "R:lme4/grouseticks", "TICKS", "counts", "INDEX cHEIGHT", nominal="BROOD LOCATION YEAR"),
    Table("deepsea", "R:COUNT/fishing", "totabund", "counts", "site density"),
    Table("claims", "insurance:frequency", "target", "counts"),
    Table("groupclaims", "R:MASS/Insurance", "Claims", "counts", nominal="District"),
)
CLASSES = (
    Table("attrition", "R:modeldata/attrition", "Attrition", "classes"),
    Table("penguins", "R:palmerpenguins/penguins", "species", "classes"),
    Table("titanic", "R:carData/TitanicSurvival", "survived", "classes"),
    Table("credit", "R:modeldata/credit_data", "Status", "classes"),
    Table("germancredit", "Rlib:caret/GermanCredit", "Class", "classes"),
    Table("churn", "R:modeldata/mlc_churn", "churn", "classes"),
    Table("telcochurn", "R:modeldata/wa_churn", "churn", "classes"),
    Table("hpc", "R:modeldata/hpc_data", "class", "classes"),
    Table("cells", "R:modeldata/cells", "class", "classes", "case"),
    Table("remotework", "R:modeldata/stackoverflow", "Remote", "classes"),
    Table("alzheimer", "R:modeldata/ad_data", "Class", "classes"),
    Table("leaves", "R:modeldata/leaf_id_flavia", "species", "classes"),
    Table("scat", "R:modeldata/scat", "Species", "classes"),
    Table("taxi", "R:modeldata/taxi", "tip", "classes"),
    Table("olive", "R:dslabs/olive", "area", "classes", "region"),
    Table("hmda", "R:AER/HMDA", "deny", "classes"),
    Table("creditcard", "R:AER/CreditCard", "card", "classes", "share expenditure"),
    Table("schoolchoice", "R:AER/GSOEP9402", "school", "classes"),
    Table("healthinsurance", "R:AER/HealthInsurance", "insurance", "classes"),
    Table("mroz", "R:carData/Mroz", "lfp", "classes", "lwg"),  # lwg is a prediction for women who earn no wage
    Table("chile", "R:carData/Chile", "vote", "classes"),
    Table("beps", "R:carData/BEPS", "vote", "classes"),
    Table("poverty", "R:carData/WVS", "poverty", "classes"),
    Table("arrests", "R:carData/Arrests", "released", "classes"),
    Table("crabs", "R:MASS/crabs", "sp", "classes", "index"),
    Table("birthwt", "R:MASS/birthwt", "low", "classes", "bwt", nominal="race"),
    Table("emailspam", "R:openintro/email", "spam", "classes"),
    Table("contraception", "R:mlmRev/Contraception", "use", "classes", "woman", nominal="district"),
    Table("juice", "R:ISLR/OJ", "Purchase", "classes", nominal="StoreID STORE"),
    Table("caravan", "R:ISLR/Caravan", "Purchase", "classes"),
    Table("monica", "R:DAAG/monica", "outcome", "classes"),
    Table("crashes", "R:DAAG/nassCDS", "dead", "classes", "weight injSeverity caseid"),
    Table("hawks", "R:Stat2Data/Hawks", "Species", "classes", "BandNumber CaptureTime ReleaseTime"),
    Table("breastcancer", "sklearn:breast_cancer", "target", "classes"),
    Table("digits", "sklearn:digits", "target", "classes"),
    Table("wine", "sklearn:wine", "target", "classes"),
    Table("iris", "sklearn:iris", "target", "classes"),
    Table("spam", "Rlib:kernlab/spam", "type", "classes"),
    Table("musk", "Rlib:kernlab/musk", "Class", "classes"),
    Table("promoters", "Rlib:kernlab/promotergene", "Class", "classes"),
    Table("letter", "Rlib:mlbench/LetterRecognition", "lettr", "classes"),
    Table("vehicle", "Rlib:mlbench/Vehicle", "Class", "classes"),
    Table("satellite", "Rlib:mlbench/Satellite", "classes", "classes"),
    Table("glass", "Rlib:mlbench/Glass", "Type", "classes"),
    Table("soybean", "Rlib:mlbench/Soybean", "Class", "classes"),
    Table("sonar", "Rlib:mlbench/Sonar", "Class", "classes"),
    Table("ionosphere", "Rlib:mlbench/Ionosphere", "Class", "classes"),
    Table("vowel", "Rlib:mlbench/Vowel", "Class", "classes", nominal="V1"),
    Table("dna", "Rlib:mlbench/DNA", "Class", "classes"),
    Table("housevotes", "Rlib:mlbench/HouseVotes84", "Class", "classes"),
    Table("pima", "Rlib:mlbench/PimaIndiansDiabetes2", "diabetes", "classes"),
    Table("shuttle", "Rlib:mlbench/Shuttle", "Class", "classes"),
)
TABLES = {table.name: table for table in (*NUMBERS, *AMOUNTS, *COUNTS, *CLASSES)}
