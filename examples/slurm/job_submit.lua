-- Places all jobs of the partition `tributary`: holds them and marks them, so that users need neither
-- --hold nor --comment. Set JobSubmitPlugins=lua in slurm.conf, and put this file beside it.

function slurm_job_submit(job, partitions, uid)
    if job.partition == "tributary" and job.comment == nil then
        job.comment = "tributary"
        job.priority = 0
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
    return slurm.SUCCESS
end
